"""SparseGPVAE: the paper's comparison for RP-GPFA, a sparse Gaussian-process VAE with amortised sites."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin

from rpmodels import checks, errors
from rpmodels.estimators import kernels, networks, parts, regularisation
from rpmodels.estimators.gaussian_process import INTERVAL, RPGPFA
from rpmodels.estimators.layout import Layout, joined
from rpmodels.estimators.posteriors import LatentMarginals
from rpmodels.estimators.series import read_series
from rpmodels.learning import Attempt, TrainingSettings, device_of, dtype_of
from rpmodels.learning.consumers import HistoryTable
from rpmodels.observations import Observations
from rpmodels.paper.baselines import gp_vae_model
from rpmodels.paper.baselines.trained import fit_best
from rpmodels.priors import GaussianProcessPrior
from rpmodels.recognition import RecognitionFactor, RelativeHead, fit_scalings
from rpmodels.seeding import seeded, spawn


class SparseGPVAE(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """A VAE whose K latents are Gaussian processes with inducing points, with the manners of `RPGPFA`.

    One factor of numbers: an array (N, T, *event), a list of (T_n, *event), or a dict that holds one such factor; one
    array (T, D) is a long recording, cut into windows. Rows that are all NaN are missing.

    Args:
        n_latents: K
        n_inducing, inducing, kernel, mean, length_scale, window: of the prior and its clock, as in `RPGPFA`
        network: recognition network, as in `RPGPFA`
        decoder: "auto" (the hidden layers of the recognition network, mirrored), "linear", or a module from (n, K) to
            (n, numbers in one observation), in standardised units of x
        scaling: of what the recognition network sees, as in `RPGPFA`; the likelihood is always that of x itself
        start_noise: where the noise of the likelihood starts, as a share of every channel's variance (chosen with the
            learning rate, by training ELBO: docs/results/learning-rates-balls.json)
        samples: draws a site and step, for ⟨log p(x|z)⟩
        max_iter, tol, patience, learning_rate, batch_size, max_gradient_norm: as in `RPGPFA`
        n_init: starts, judged early by their ELBO
        weight_decay, dropout: of the recognition network; none by default, as a VAE has noise of its own
        random_state, device, dtype, callbacks: as in `RPGPFA`

    Attributes:
        history_: the ELBO and its terms at every step
        score_: ELBO of the training data, nats a trial
        length_scales_: of every latent, in units of time
        noise_: standard deviation of every channel given the latents, in the units of x
        model_, restarts_, n_iter_, stop_reason_: as in `RPGPFA`

    """

    model_: gp_vae_model.SparseGPVAEModel
    history_: HistoryTable
    restarts_: list[Attempt]
    n_iter_: int
    stop_reason_: str
    score_: float

    def __init__(
        self,
        n_latents: int = 1,
        *,
        n_inducing: int | str = "auto",
        inducing: Any = "fixed",
        kernel: Any = "rbf",
        mean: Any = None,
        length_scale: float | str = "auto",
        window: int = 200,
        network: Any = "auto",
        decoder: Any = "auto",
        scaling: str = "auto",
        start_noise: float = 0.3,
        samples: int = 5,
        max_iter: int = 400,
        tol: float | None = None,
        patience: int = 200,
        learning_rate: float = 3e-2,
        batch_size: int | str | None = "auto",
        n_init: int = 3,
        weight_decay: float = 0.0,
        dropout: float = 0.0,
        max_gradient_norm: float | None = 1.0,
        random_state: int | None = None,
        device: str = "auto",
        dtype: str = "float32",
        callbacks: Sequence[Any] | None = None,
    ) -> None:
        self.n_latents = n_latents
        self.n_inducing = n_inducing
        self.inducing = inducing
        self.kernel = kernel
        self.mean = mean
        self.length_scale = length_scale
        self.window = window
        self.network = network
        self.decoder = decoder
        self.scaling = scaling
        self.start_noise = start_noise
        self.samples = samples
        self.max_iter = max_iter
        self.tol = tol
        self.patience = patience
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.n_init = n_init
        self.weight_decay = weight_decay
        self.dropout = dropout
        self.max_gradient_norm = max_gradient_norm
        self.random_state = random_state
        self.device = device
        self.dtype = dtype
        self.callbacks = callbacks

    # ---- fitting ----------------------------------------------------------------------------

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        times: Any = None,
        presence: Mapping[str, Any] | None = None,
        sample_weight: Any = None,
    ) -> "SparseGPVAE":
        """Maximise the ELBO from `n_init` random starts; arguments as those of `RPGPFA.fit`."""
        observations, _ = self._read(X, overlap=False, times=times, presence=presence, weights=sample_weight)
        name = gp_vae_model.only_factor(observations)
        observations.check_series(per_site=False)
        starts = checks.integer("n_init", self.n_init, 1)
        training = self._training(observations)
        seeds = spawn(self.random_state, 2)
        with seeded(seeds[0]):
            model = self._build(name, observations)
        interval = max(1, min(INTERVAL, training.max_iter // 4))
        run, attempts = fit_best(
            model,
            observations,
            training,
            n_init=starts,
            interval=interval,
            random_state=seeds[1],
            callbacks=self.callbacks,
        )
        self.model_ = run.model.eval()
        self.specs_ = dict(observations.specs)
        self.history_ = run.history.table()
        self.restarts_ = attempts
        self.n_iter_ = run.step
        self.stop_reason_ = run.stop_reason or ""
        self.score_ = float(np.average(self._elbos(observations), weights=observations.weights))
        return self

    def _training(self, observations: Observations) -> TrainingSettings:
        return TrainingSettings(
            max_iter=self.max_iter,
            learning_rate=self.learning_rate,
            batch_size=regularisation.batch_size(self.batch_size, observations, *RPGPFA.sites_and_trials_a_step),
            weight_decay=self.weight_decay,
            tol=self.tol,
            patience=self.patience,
            max_gradient_norm=self.max_gradient_norm,
            low_rate=RPGPFA.low_rate,
        )

    def _build(self, name: str, observations: Observations) -> gp_vae_model.SparseGPVAEModel:
        spec = observations.specs[name]
        family = parts.family("diagonal", checks.integer("n_latents", self.n_latents, 1))
        channels = int(np.prod(spec.event_shape))
        hidden = regularisation.continuous_regularisation(observations).hidden
        dropout = checks.number("dropout", self.dropout, least=0.0, below=1.0)
        network = networks.networks(
            networks.linear_for_counts(self.network, observations), False, observations, {name: family.raw_size},
            networks.Layers(hidden, dropout, straight=False),
        )[name]  # fmt: skip
        prior = kernels.gaussian_process(
            family, observations, self.kernel, self.n_inducing, self.inducing, self.mean, self.length_scale
        )
        recogniser = RecognitionFactor(network, RelativeHead(), family)
        decoder = gp_vae_model.make_decoder(self.decoder, self.n_latents, channels, hidden[::-1])
        start = checks.number("start_noise", self.start_noise, above=0.0)
        likelihood = gp_vae_model.GaussianLikelihood(
            decoder, gp_vae_model.units_of(observations.present_rows(name)), channels, start
        )
        samples = checks.integer("samples", self.samples, 1)
        model = gp_vae_model.SparseGPVAEModel(name, prior, recogniser, likelihood, samples)
        model.to(device_of(self.device), dtype_of(self.dtype))
        like = likelihood.log_noise
        fit_scalings({name: recogniser}, observations, self.scaling, like)
        recogniser.check(name, spec, like)
        return model

    def _read(self, X: Any, *, overlap: bool = True, **options: Any) -> tuple[Observations, Layout]:
        window = checks.integer("window", self.window, 2)
        return read_series(X, None, lambda _: window, overlap, options)

    def _new(self, X: Any, **options: Any) -> tuple[gp_vae_model.SparseGPVAEModel, Observations, Layout]:
        if not hasattr(self, "model_"):
            raise errors.not_fitted(type(self).__name__)
        return self.model_, *self._read(X, known=self.specs_, **options)

    # ---- what one asks of it ----------------------------------------------------------------

    @property
    def length_scales_(self) -> NDArray[Any]:
        """Length scale of every latent, in units of time."""
        return cast(GaussianProcessPrior, self.model_.prior).length_scales().cpu().numpy()

    @property
    def noise_(self) -> NDArray[Any]:
        """Standard deviation of every channel given the latents, in the units of x."""
        return np.asarray(self.model_.likelihood.noise_sd().detach().cpu().numpy())

    def transform(self, X: Any, **options: Any) -> Any:
        """Posterior means of the latents, in the form of X."""
        return self.posterior(X, **options).mean

    @torch.no_grad()
    def posterior(self, X: Any, **options: Any) -> LatentMarginals:
        """Means and covariances of the latents at every time, in the form of X."""
        model, observations, form = self._new(X, **options)
        etas = [model.recognise(batch)[1].eta for batch in model.batches(observations)]
        mean = joined([model.family.moments(eta)[0] for eta in etas], observations.n_sites)
        covariance = joined([model.family.covariance(eta) for eta in etas], observations.n_sites)
        return LatentMarginals(form.form(mean), form.form(covariance), form.times)

    @torch.no_grad()
    def reconstruct(self, X: Any, **options: Any) -> Any:
        """The decoder's mean of x at the posterior mean of the latents, missing bins included, in the form of X."""
        model, observations, form = self._new(X, **options)
        means = [model.family.moments(model.recognise(batch)[1].eta)[0] for batch in model.batches(observations)]
        decoded = joined([model.likelihood.in_units_of_x(z) for z in means], observations.n_sites)
        return form.form(decoded.reshape(*decoded.shape[:2], *self.specs_[model.name].event_shape))

    def score_samples(self, X: Any, **options: Any) -> NDArray[np.float64]:
        """ELBO of every trial: a lower bound of log p(x), in nats."""
        return self._elbos(self._new(X, **options)[1])

    def score(self, X: Any, y: Any = None, **options: Any) -> float:
        """Mean ELBO a trial."""
        return float(self.score_samples(X, **options).mean())

    @torch.no_grad()
    def _elbos(self, observations: Observations) -> NDArray[np.float64]:
        noise = self.model_.settled_noise()
        terms = [self.model_.elbo(batch, noise) for batch in self.model_.batches(observations, len(noise))]
        return np.asarray(torch.cat([likelihood + prior for likelihood, prior in terms]).double().cpu().numpy())
