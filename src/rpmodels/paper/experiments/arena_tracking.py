"""What is asked of one fit to the arena: where is the agent, how sure is that, and what of the others?"""

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rpmodels import metrics
from rpmodels.datasets import Arena
from rpmodels.estimators import RPGPFA
from rpmodels.estimators.posteriors import LatentPosterior
from rpmodels.paper.experiments.curved_map import CurvedMap
from rpmodels.paper.experiments.experiment import Outcome
from rpmodels.paper.experiments.recovery import thinned

Moments = tuple[NDArray[Any], NDArray[Any]]
GAPS = {"no ranges": ("ranges",), "no video": ("video",), "neither": ("video", "ranges")}


def shown_episode(data: Arena) -> int:
    """The one completed nearest to its middle, so that both colours of the floor are seen; or the first."""
    n_times = data.done.shape[1]
    from_middle = np.abs(data.done.argmax(1) - n_times // 2)
    return int(np.where(data.done[:, -1], from_middle, n_times).argmin())


class Tracked:
    """A model fitted to the first episodes; all maps from latents to positions are those of these episodes."""

    def __init__(self, model: RPGPFA, data: Arena, n_training: int) -> None:
        self.model = model
        self.training, self.heldout = data.episodes(slice(n_training)), data.episodes(slice(n_training, None))
        begun = time.perf_counter()
        model.fit(self.training.factors)
        self.seconds = time.perf_counter() - begun
        self.known = model.transform(self.training.factors)
        self.line = metrics.linear_map(self.known, self.training.z)
        self.curve = CurvedMap(self.known, self.training.z)
        self.new = model.posterior(self.heldout.factors)
        self.shown = shown_episode(self.heldout)

    def view(self, factors: Sequence[str]) -> Outcome:
        """From some of the factors, at test time."""
        seen, new = ({name: data.factors[name] for name in factors} for data in (self.training, self.heldout))
        there = self.model.posterior(new)
        return Outcome(
            {
                "nmse": metrics.nmse(self.model.transform(seen), self.training.z, self.known, self.training.z),
                "nmse_heldout": metrics.nmse(there.mean, self.heldout.z, self.known, self.training.z),
                "coverage_90": self._covers(there),
            },
            self._placed(there, self.shown),
        )

    def calibration(self) -> dict[str, float]:
        """Of the amortised posterior and of the one refined by natural gradients, after both kinds of map."""
        there = self.new
        refined = self.model.posterior(self.heldout.factors, e_step="natural_gradient")
        truth = self.heldout.z
        off = self.curve(*_moments(there))[0] - truth
        return {
            "nmse_heldout_curved": float(np.square(off).sum() / np.square(truth - truth.mean((0, 1))).sum()),
            "coverage_90_curved": metrics.region_coverage(*self.curve(*_moments(there)), truth),
            "nmse_heldout_refined": metrics.nmse(refined.mean, truth, self.known, self.training.z),
            "coverage_90_refined": self._covers(refined),
            "coverage_90_curved_refined": metrics.region_coverage(*self.curve(*_moments(refined)), truth),
        }

    def training_numbers(self) -> dict[str, float]:
        """Score, steps, time."""
        score = self.model.score_
        return {
            "score_nats": float(score),
            "ceiling_nats": score.ceiling,
            "steps": float(self.model.n_iter_),
            "fit_seconds": self.seconds,
        }

    def distractor(self, number: int) -> Outcome:
        """How much the latents, and how much the equipped agent's true path, say of another agent."""
        others = [agent for agent in range(self.training.paths.shape[2]) if agent != self.training.equipped]
        path, held = (data.paths[:, :, others[number]] for data in (self.training, self.heldout))
        return Outcome(
            {
                "nmse": metrics.nmse(self.known, path),
                "nmse_heldout": metrics.nmse(self.new.mean, held, self.known, path),
                "nmse_of_true_path": metrics.nmse(self.training.z, path),
            }
        )

    def extras(self) -> dict[str, Any]:
        """For the figures: the shown held-out episode with its middle half cut, and the learning curve."""
        one = self.heldout.episodes(slice(self.shown, self.shown + 1))
        times = np.arange(one.ranges.shape[1])
        there = (times < len(times) // 4) | (times >= 3 * len(times) // 4)
        gaps = {
            name: self.model.posterior(one.factors, presence=dict.fromkeys(cut, there[None]))
            for name, cut in GAPS.items()
        }
        return {
            "gaps": {name: self._placed(each, 0) for name, each in gaps.items()},
            "history": thinned(self.model.history_),
            "length_scales": np.round(self.model.length_scales_, 3).tolist(),
            "stopped": self.model.stop_reason_,
        }

    def _covers(self, posterior: LatentPosterior) -> float:
        return metrics.region_coverage(*metrics.mapped(*_moments(posterior), *self.line), self.heldout.z)

    def _placed(self, posterior: LatentPosterior, episode: int) -> dict[str, Any]:
        """Positions in an episode, by the linear map: where nothing is known a polynomial would run away."""
        mean, covariance = metrics.mapped(*_moments(posterior), *self.line)
        return {
            "mean": np.round(mean[episode], 4).tolist(),
            "covariance": np.round(covariance[episode], 6).tolist(),
        }


def _moments(posterior: LatentPosterior) -> Moments:
    return posterior.mean, posterior.covariance
