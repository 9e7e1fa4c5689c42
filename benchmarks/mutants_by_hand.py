"""Subtle bugs, each a line that somebody could have written: numbers stay finite, shapes fit, and fits look like fits."""

SUBTLE: dict[str, list[tuple[str, str]]] = {
    "log_weight.py": [
        ("sizes.append(1.0 / shares.square().sum(0))", "sizes.append(torch.full_like(top, float(draws)))"),
        (".std(0) / math.sqrt(draws))", ".std(0) / math.sqrt(draws) * 3.0)"),
        ("logs.append(top - math.log(draws))", "logs.append(top - math.log(draws + 1))"),
        ("for count in (nodes, 2 * nodes)]", "for count in (nodes, nodes + 1)]"),
    ],
    "integration.py": [
        ("_log_ratios(inferred, statistic[:, :, None])[..., 0].sum(-1)", "_log_ratios(inferred, statistic[:, :, None])[..., 0].mean(-1)"),
        ("torch.where(factor.present[..., None], ratio, torch.zeros_like(ratio))", "ratio"),
    ],
    "inference/natural_gradient.py": [
        ("step.prior.condition(refined + (start - start.detach()), step.sites)", "step.prior.condition(refined, step.sites)"),
        ("rho = torch.where(better, rho, 0.5 * rho)", "rho = torch.where(better, rho, rho)"),
        ("better = possible & (value > reached)", "better = possible"),
        ("posterior = problem.posterior(potentials)\n        return", "posterior = problem.posterior(candidate)\n        return"),
    ],
    "inference/refined.py": [("each if each.channels is None else replace(each, g=self.temperature * each.g)", "replace(each, g=self.temperature * each.g)")],
    "learning/batches.py": [
        ("rest = np.setdiff1d(np.arange(n), index)", "rest = np.arange(n)"),
        ("np.array_split(self._random.permutation(self.n), self.per_epoch)", "np.array_split(np.arange(self.n), self.per_epoch)"),
        ("np.sort(order[held_out:]), np.sort(order[:held_out])", "np.sort(order), np.sort(order[:held_out])"),
    ],
    "mixtures/extra_atoms.py": [
        ("1.0 + len(extra.g) / len(own.g)", "2.0 + len(extra.g) / len(own.g)"),
        ("others[batch.index] = False", "pass"),
        ("present[batch.index] = False", "pass"),
    ],
    "mixtures/reduce.py": [("return total, (shares[..., None, :] @ values)[..., 0, :]", "return total, (shares[..., None, :].detach() @ values)[..., 0, :]")],
    "mixtures/mixture.py": [
        ("total, averages = both, (1.0 - share) * averages + share * values[..., 0, :]", "total, averages = both, averages"),
        ("return self._normaliser_of(g) - self._log_normaliser", "return self._normaliser_of(g)"),
        ("return log_f - self.log_ratio(t)", "return log_f - self.log_ratio(t).detach()"),
    ],
    "mixtures/interior_bound.py": [
        ("value = value + ((eta_q - a) * family.mean(eta_q)).sum(-1)", "value = value + ((eta_q - a) * family.mean(eta_q).detach()).sum(-1)"),
        ("second = roots @ roots.mT + offset[..., :, None] * offset[..., None, :]", "second = roots @ roots.mT"),
    ],
    "mixtures/second_order.py": [("trace = averages[..., -1] - averages[..., :-1].square().sum(-1)", "trace = averages[..., -1]")],
    "mixtures/monte_carlo.py": [("return MonteCarlo(self.samples, fresh=False, seed=self.seed)", "return MonteCarlo(self.samples, fresh=True, seed=self.seed)")],
    "mixtures/atoms.py": [
        ("return whole.some(drawn).with_own(own, reference)", "return whole.some(drawn)"),
        ("real[torch.randperm(len(real))[:sample].to(real.device)]", "real[:sample]"),
    ],
    "mixtures/population.py": [
        ("precision = tau + self.curves.b\n", "precision = tau + 2.0 * self.curves.b\n"),
        ("second = (share * (variance + mean.square())).sum(-1)", "second = (share * mean.square()).sum(-1)"),
    ],
    "mixtures/channel_sums.py": [("by_value[..., i] = share.sum((0, 2))", "by_value[..., i] = 0.5 * share.sum((0, 2))")],
    "mixtures/gathering.py": [("log_count=everyones[..., -1])", "log_count=mixture.log_count.repeat(1, communicator.size))")],
    "families/full_gaussian.py": [
        ("torch.isfinite(eta).all(-1) & linalg.is_positive_definite(-second - second.mT)", "torch.isfinite(eta).all(-1)"),
        ("matrix = -0.5 * BROADEST_PRECISION * torch.eye", "matrix = -50.0 * BROADEST_PRECISION * torch.eye"),
        ("return torch.cat([left, SQRT2 * (root.mT @ second @ root).flatten(-2)], -1)", "return torch.cat([left, (root.mT @ second @ root).flatten(-2)], -1)"),
        ("by_mean - 2.0 * (matrix @ mean[..., None])[..., 0]", "by_mean - (matrix @ mean[..., None])[..., 0]"),
    ],
    "linalg/dense.py": [
        ("_JITTER = {torch.float32: 1e-6, torch.float64: 1e-12}", "_JITTER = {torch.float32: 1e-6, torch.float64: 1e-9}"),
        ("_KERNEL_JITTER = {torch.float32: 1e-4, torch.float64: 1e-9}", "_KERNEL_JITTER = {torch.float32: 1e-4, torch.float64: 1e-6}"),
        ("matrix + (added * bad * scale)[..., None, None] * eye", "matrix + (added * scale)[..., None, None] * eye"),
    ],
    "free_energy.py": [
        ("parameters = (-step.prior.parameter_kl() / n_observations).expand(kl.shape)", "parameters = (-step.prior.parameter_kl()).expand(kl.shape) / len(kl)"),
        ("return self.total - self.log_atoms", "return self.total - self.log_atoms.mean()"),
        ("return min(grid, sum(parts) - max(parts))", "return min(grid, sum(parts) - min(parts))"),
    ],
    "priors/markov_chain_posterior.py": [
        ("torch.where(self.sites.exists[:, t + 1, None], self.log_transition.T[z[-1]], 0.0)", "torch.where(self.sites.exists[:, t + 1, None], self.log_transition[z[-1]], 0.0)"),
        ("torch.where(self.sites.exists, picked, 0.0).sum(-1)", "picked.sum(-1)"),
    ],
    "priors/kalman.py": [("step.A @ state.covariance @ step.A.mT + step.Q", "step.A.mT @ state.covariance @ step.A + step.Q")],
    "priors/driving.py": [("pad(known[:, :-1] @ wide(self.B).mT, (0, 0, 1, 0))", "pad(known[:, 1:] @ wide(self.B).mT, (0, 0, 1, 0))")],
    "priors/gaussian_process.py": [
        ("spread = share @ (variance + (mean - average).square())", "spread = share @ variance"),
        ("known = (torch.where(place <= t, potentials, 0.0)", "known = (torch.where(place <= t + 1, potentials, 0.0)"),
    ],
    "temperature.py": [("(half_variance - variance).sum(-1)", "half_variance.sum(-1)")],
    "sampling_error.py": [("scale = squares / (len(kept) ** 2 * n)", "scale = squares / (len(kept) * n)")],
    "learning/moves.py": [("share = posterior[:, a] + posterior[:, b]", "share = posterior[:, a]")],
    "learning/objective.py": [
        ("min(1.0, float(last.batch.total_weight) / self.n_observations)", "1.0"),
        ("local = self.local.take(batch.index) if self.training else LocalParameters()", "local = self.local.take(batch.index)"),
    ],
    "evaluation/bits.py": [
        ("np.where(codes == last, or_more, exactly)", "exactly"),
        ("return np.asarray(np.maximum(np.nansum(counts, 0), SILENT) / known)", "return np.asarray(np.maximum(np.nansum(counts, 0), SILENT) / len(counts))"),
    ],
}  # fmt: skip

NEAR: dict[str, str] = {
    "log_weight.py": "log_weight quadrature_error",
    "integration.py": "quadrature_error generative",
    "inference/natural_gradient.py": "e_steps properties",
    "inference/refined.py": "temperature e_steps",
    "learning/batches.py": "learning scale exact",
    "mixtures/extra_atoms.py": "scale",
    "mixtures/reduce.py": "mixtures approximations kernels",
    "mixtures/mixture.py": "mixtures sampled_atoms approximations",
    "mixtures/interior_bound.py": "approximations properties",
    "mixtures/second_order.py": "approximations properties",
    "mixtures/monte_carlo.py": "approximations properties",
    "mixtures/atoms.py": "sampled_atoms mixtures e_steps",
    "mixtures/population.py": "population kernels",
    "mixtures/channel_sums.py": "population kernels",
    "mixtures/gathering.py": "distributed",
    "families/full_gaussian.py": "families properties",
    "linalg/dense.py": "linalg gaussian_process double_precision",
    "free_energy.py": "exact approximations fitted",
    "priors/markov_chain_posterior.py": "markov_chain joint_chain",
    "priors/kalman.py": "linear_dynamics",
    "priors/driving.py": "linear_dynamics inputs",
    "priors/gaussian_process.py": "gaussian_process sampling_error",
    "temperature.py": "temperature",
    "sampling_error.py": "sampling_error",
    "learning/moves.py": "site_moves learning",
    "learning/objective.py": "exact e_steps learning",
    "evaluation/bits.py": "co_smoothing marginals",
}
"""Files of tests that are about a module."""
