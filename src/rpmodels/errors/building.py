"""Networks and parts that do not go together."""

from rpmodels.errors.kinds import BuildError, InputError, NumericalError, RPModelsWarning


def network_needs_images(event: tuple[int, ...], minimum: int) -> BuildError:
    """A convolution on something else."""
    return BuildError(
        f"The convolutional network takes images (H, W) or (C, H, W) of at least {minimum}×{minimum}, got events of "
        f"shape {event}. Use network='mlp'."
    )


def network_needs_labels(name: str) -> BuildError:
    """A lookup table on numbers."""
    return BuildError(
        f"Factor '{name}': a lookup table takes one label (string or integer) per row, got numbers. Use network='mlp', "
        "or hand in labels of shape (N,)."
    )


def network_failed(name: str, event: tuple[int, ...], failure: Exception) -> BuildError:
    """The user's module raised."""
    return BuildError(
        f"The network of factor '{name}' failed on a batch of shape (2, {', '.join(map(str, event))}): {failure}. "
        "Expected a module that maps (n, *event) to (n, raw_size)."
    )


def network_shape(name: str, event: tuple[int, ...], expected: object, got: object) -> BuildError:
    """The user's module has another output."""
    return BuildError(
        f"The network of factor '{name}' maps a batch of shape (2, {', '.join(map(str, event))}) to {got}: expected "
        f"{expected}, the raw numbers of the latent's family."
    )


def too_few_states(got: int) -> InputError:
    """K < 2."""
    return InputError(f"n_states: expected at least 2 (one state can explain no dependence), got {got}.")


def needs_finite_support(what: str, family: str) -> BuildError:
    """Exact with a latent whose values cannot be summed over."""
    return BuildError(
        f"{what[0].upper()}{what[1:]} sums over the values of the latent, and {family} has infinitely many, or does "
        "not list them (FiniteSupport). Choose e_step=Amortised() and expected_log_mixture=InteriorBound(), which take "
        "any latent, or a prior over discrete ones."
    )


def needs_gaussian(what: str, family: str) -> BuildError:
    """Mean and spread are wanted and not there."""
    return BuildError(
        f"{what[0].upper()}{what[1:]} goes through the mean and spread of Gaussian latents, and {family} has none "
        "(Gaussian). Choose DiagonalGaussian or FullGaussian, or parts that take any latent: e_step=Amortised(), "
        "expected_log_mixture=InteriorBound() (ExactEStep() and Exact() for discrete ones)."
    )


def not_gaussian(prior: str, family: str) -> BuildError:
    """A prior of Gaussian latents over others."""
    return BuildError(
        f"{prior} is a prior of Gaussian latents, and {family} is another family: expected DiagonalGaussian or "
        "FullGaussian. Choose one of these, or another prior."
    )


def not_markovian(kernel: str) -> BuildError:
    """A kernel whose process has no finite state."""
    return BuildError(
        "MarkovianProcessPrior takes Matérn, RBF and periodic kernels of gpytorch.kernels over one input, sums, "
        f"products and ScaleKernels of these, got {kernel}, which is no chain of states. Choose among them, or "
        "GaussianProcessPrior, which takes any kernel."
    )


def needs_domain(what: str, family: str) -> BuildError:
    """Which natural parameters are valid is not known."""
    return BuildError(
        f"{what[0].upper()}{what[1:]} moves among the valid natural parameters, and {family} does not say which are "
        "(HasDomain). Choose parts that take any latent: e_step=Amortised(), expected_log_mixture=InteriorBound() "
        "(ExactEStep() and Exact() for discrete ones)."
    )


def needs_grid(what: str, family: str) -> BuildError:
    """Points that cover the space of the latent are wanted."""
    return BuildError(
        f"{what[0].upper()}{what[1:]} covers the whole space of the latent, and that of {family} is unbounded, or not "
        "known (HasGrid). Choose quadrature(latents) for Gaussian latents, or InteriorBound(), which takes any latent."
    )


def needs_targets(what: str, family: str) -> BuildError:
    """Latents that cannot be taken apart."""
    return BuildError(
        f"{what[0].upper()}{what[1:]} needs a family whose latents can be told apart, and {family} does not do that "
        "(HasTargets). Leave `targets` out, or choose DiagonalGaussian or FullGaussian."
    )


def private_and_targets() -> InputError:
    """Two ways to say the same."""
    return InputError(
        "recognition.private beside recognition.targets: expected one of them. Private latents are targets that are "
        "counted: leave `targets` out, or write all latents there and leave `private` out."
    )


def private_of_the_only_factor(name: str) -> InputError:
    """Nobody to share with."""
    return InputError(
        f"recognition.private of factor '{name}': expected two factors or more, some of whose latents are one's own, "
        "got one factor, whose latents all are. Leave it out, and count them in n_latents."
    )


def nothing_private(name: str) -> InputError:
    """Nothing that a latent of one factor could explain."""
    return InputError(
        f"recognition.private of factor '{name}': expected a factor with something that depends on something else of "
        "its own (times, or channels that are recognised one by one), got one network at one site. Leave it out: what "
        f"'{name}' has to itself needs no latent there; or choose channels={{'{name}': 'separate'}}."
    )


def needs_statistic_covariance(what: str, family: str) -> BuildError:
    """V_q is wanted and not there."""
    return BuildError(
        f"{what[0].upper()}{what[1:]} needs the covariance of the family's statistic, and {family} does not have it "
        "(HasStatisticCovariance). Choose expected_log_mixture=InteriorBound(), which takes any latent."
    )


def needs_reparametrisation(what: str, family: str) -> BuildError:
    """Draws that can be differentiated are wanted."""
    return BuildError(
        f"{what[0].upper()}{what[1:]} needs draws that are differentiable in the natural parameters, and {family} has "
        "none (Reparametrised). Choose expected_log_mixture=InteriorBound(), which takes any latent."
    )


def needs_samples(family: str) -> BuildError:
    """Draws are wanted and not there."""
    return BuildError(
        f"A draw from the posterior needs draws from the latent's family, and {family} has none (Samplable)."
    )


def needs_latents(family: str) -> InputError:
    """p(x | z) of every state, where there are no states."""
    return InputError(
        f"z: expected latents, as `sample` gives them, got None, which stands for every state; {family} has infinitely "
        "many values."
    )


def few_effective_draws(effective: float, draws: int) -> RPModelsWarning:
    """Warning: importance sampling from a q that is far from the posterior, or over many sites."""
    return RPModelsWarning(
        f"The weights of draws of q differ so much that they are as good as {effective:.1f} independent draws of "
        f"{draws}, for some observation: its errors are large. Raise `draws`, or take q for the posterior "
        "(method='q')."
    )


def needs_log_density(prior: str) -> BuildError:
    """p(Z) is wanted as a number."""
    return BuildError(
        f"Quadrature needs the density p(Z) of the prior, and {prior} does not compute it (HasLogDensity). "
        "Use method='importance'."
    )


def too_many_dimensions(what: str, most: int, of: str, got: int) -> BuildError:
    """A grid in too many dimensions."""
    return BuildError(
        f"{what} takes at most {most} {of}, got {got}. Choose 'interior', 'second_order' or 'monte_carlo'."
    )


def grid_too_fine(points: int, most: int) -> RPModelsWarning:
    """Warning: quadrature capped."""
    return RPModelsWarning(
        f"The shared grid would need {points} points to resolve the sharpest posterior; {most} are used, and ⟨log F⟩ "
        "is less exact. Try inference.expected_log_mixture='interior', or Gauss–Hermite nodes."
    )


def wrong_batch_shape(what: str, latents: int, got: tuple[int, ...]) -> BuildError:
    """A kernel or mean function for another number of latents."""
    return BuildError(
        f"The {what} has batch shape {got}: expected () (the same for all latents) or ({latents},), one for each of "
        f"the {latents} latent(s). In GPyTorch: batch_shape=torch.Size([{latents}])."
    )


def no_channels(name: str, shape: tuple[int, ...]) -> InputError:
    """A population has a vector of channels."""
    return InputError(
        f"channels of factor '{name}': expected a vector of numbers for every site, whose channels can be recognised "
        f"one by one, got observations of shape {shape}. Choose channels='together' for it."
    )


def absolute_population() -> BuildError:
    """Channels say what they know beyond the prior."""
    return BuildError(
        "A population of channels says what it knows beyond the prior, and absolute factors may know less than it. "
        "Choose recognition.head='relative', or channels='together'."
    )


def population_needs_full(family: str) -> BuildError:
    """Channels along projections couple the latents."""
    return BuildError(
        "A population of channels speaks of projections of the latents, which couples them: expected a full Gaussian, "
        f"got {family}. Choose recognition.covariance='full' (or 'auto'), or channels='together'."
    )


def uncoupled_sites(what: str, prior: str) -> BuildError:
    """Nothing is known of a site that is not heard."""
    return BuildError(
        f"{what} judges sites by what others say of them, and under a {prior} they know nothing of each other. Choose "
        "inference.e_step='amortised', or a model of latents in time (RPGPFA, RPLDS)."
    )


def absolute_factors(what: str) -> BuildError:
    """What an absolute factor adds to the prior may be negative."""
    return BuildError(
        f"{what[0].upper()}{what[1:]} adds what every factor knows beyond the prior, and absolute factors may know "
        "less than it. Choose recognition.head='relative', or for Gaussian latents "
        "inference.e_step='natural_gradient' or 'free'."
    )


def needs_inducing(prior: str) -> BuildError:
    """q(U) without U."""
    return BuildError(
        f"A free q(U) needs a prior with inducing points, and {prior} has none. Choose a Gaussian-process prior, or "
        "inference.e_step='free' with free potentials."
    )


def no_start_for_refinement() -> NumericalError:
    """The amortised start has no positive precision."""
    return NumericalError(
        "The natural-gradient E-step found no posterior to start from: the potentials of the recognition factors leave "
        "the prior no positive precision. Try engine.dtype='float64', or a smaller learning_rate."
    )


def not_a_precision(factor: str, trial: int, site: int, count: int) -> NumericalError:
    """A recognition factor that is no distribution."""
    return NumericalError(
        f"The precision of recognition factor '{factor}' is not positive definite at {count} site(s), first trial "
        f"{trial}, site {site}: expected finite network outputs. Look at the inputs there, try a smaller "
        "learning_rate, input scaling, or engine.dtype='float64'."
    )


def one_site_only(sites: int) -> InputError:
    """Quadrature over a whole series."""
    return InputError(
        f"Quadrature integrates over one site per observation, and these have up to {sites}. Use method='importance'."
    )


def needs_a_table(got: str) -> BuildError:
    """Exact E-step with an approximation that keeps atoms."""
    return BuildError(
        f"The exact E-step reads F_j as a table of its states, and this expected_log_mixture keeps {got}. Choose "
        "expected_log_mixture=Exact(), or another E-step."
    )
