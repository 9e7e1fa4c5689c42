"""Shapes are checked at run time in every test: the hook must come before the first import of rpmodels."""

import os

import matplotlib as mpl
from jaxtyping import install_import_hook

mpl.use("Agg")
os.environ.setdefault("OMP_NUM_THREADS", "1")
install_import_hook("rpmodels", "beartype.beartype")

import pytest  # noqa: E402
import torch  # noqa: E402

torch.set_num_threads(1)


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)
