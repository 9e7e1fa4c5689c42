"""p₀ that is not empirical."""

from rpmodels.errors.kinds import BuildError


def needs_numbers(name: str) -> BuildError:
    """A density over labels or integers."""
    return BuildError(
        f"Factor '{name}' holds labels or integers: a p₀ with a density needs floating-point numbers. "
        "Convert it with .astype(float), or use the empirical p₀, 'poisson' for counts or 'categorical' for labels."
    )


def needs_labels_for_p0(name: str) -> BuildError:
    """Frequencies of numbers."""
    return BuildError(
        f"Factor '{name}' holds numbers: a categorical p₀ is of labels. Choose another p₀ for it, "
        "marginal={'name': …}, or give its values as words or pandas categories."
    )


def population_has_p0(name: str, marginal: str) -> BuildError:
    """Channels of a population have a p₀ of their own each."""
    return BuildError(
        f"Factor '{name}' is a population, whose channels have the frequencies of their values as p₀: got {marginal}. "
        "Name the other factors in marginal={'name': …}, or leave populations out."
    )


def density_too_large(name: str, size: int, largest: int) -> BuildError:
    """A kernel density of whole images."""
    return BuildError(
        f"Factor '{name}' has rows of {size} numbers: a kernel density takes at most {largest}, and is of use for a "
        "few. Use the empirical p₀."
    )


def not_matched_by_moments(family: str, why: str) -> BuildError:
    """A family that mean and variance do not single a member out of."""
    return BuildError(
        f"{family} {why}: expected a family of torch.distributions with one parameter or two that mean and variance "
        "tell. Choose another, or write a `rp.mixtures.Parametric` of your own."
    )


def outside_support(name: str, family: str, value: float) -> BuildError:
    """Data that p₀ excludes."""
    return BuildError(
        f"Factor '{name}' has the value {value:.6g}, which a {family} p₀ never gives. Choose another family, or the "
        "empirical p₀."
    )


def atoms_are_draws(name: str) -> BuildError:
    """Weights of observations where F_j is a mixture of something else."""
    return BuildError(
        f"The atoms of factor '{name}' are draws from its p₀, not observations: there are no weights of observations. "
        "Give rows= to choose from, or fit with the empirical p₀."
    )


def extra_beside_drawn(extra: str, marginal: str) -> BuildError:
    """Extra atoms are those of observations, and a density draws its own."""
    return BuildError(
        f"{extra} takes the atoms of further observations, but {marginal} draws its atoms from a density: expected one "
        "of the two. Use engine.atoms='own', or the empirical p₀."
    )
