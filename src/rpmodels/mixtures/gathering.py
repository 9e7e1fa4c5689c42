"""The mixtures of all processes that train together, from the mixtures of their shares."""

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from rpmodels.communicator import Communicator
from rpmodels.linalg import log_sum_exp
from rpmodels.mixtures.generative import GenerativeMixture
from rpmodels.mixtures.mixture import AtomMixture, Mixture
from rpmodels.mixtures.population import PopulationMixture
from rpmodels.mixtures.table import TableMixture


def of_all_processes(mixtures: Mapping[str, Mixture], communicator: Communicator) -> dict[str, Mixture]:
    """F_j over everybody's atoms. Own atoms that were added stay where they are."""
    if communicator.size == 1:
        return dict(mixtures)
    tables = {name: each for name, each in mixtures.items() if isinstance(each, TableMixture)}
    atoms = {name: each for name, each in mixtures.items() if isinstance(each, AtomMixture)}
    # What a population is a mixture of is the same in every process, and generative factors have none.
    kept = PopulationMixture | GenerativeMixture
    found: dict[str, Mixture] = {name: each for name, each in mixtures.items() if isinstance(each, kept)}
    found |= {name: _gathered(each, communicator) for name, each in atoms.items()}
    return found | (_summed(tables, communicator) if tables else {})


def _gathered(mixture: AtomMixture, communicator: Communicator) -> AtomMixture:
    everyones = communicator.gathered(torch.cat([mixture.g, mixture.log_count[..., None]], -1), 1)
    return replace(mixture, g=everyones[..., :-1], log_count=everyones[..., -1])


def _summed(tables: Mapping[str, TableMixture], communicator: Communicator) -> dict[str, Mixture]:
    """Sums of sums, all factors in one message: K + 1 numbers a site from everybody, however many atoms there are."""
    sums = [torch.cat([each.log_mass, each.log_shared_total[:, None]], -1) for each in tables.values()]
    flat: Tensor = torch.cat([each.reshape(-1) for each in sums])[None]
    total = log_sum_exp(communicator.gathered(flat, alike=True), 0)
    parts = torch.split(total, [each.numel() for each in sums])
    found: dict[str, Mixture] = {}
    for (name, table), own, part in zip(tables.items(), sums, parts, strict=True):
        whole = part.reshape(own.shape)
        found[name] = replace(table, log_mass=whole[:, :-1], log_shared_total=whole[:, -1])
    return found
