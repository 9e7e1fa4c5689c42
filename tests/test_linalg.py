"""The one Cholesky."""

import ast
import pathlib

import pytest
import torch
from jaxtyping import TypeCheckError

from rpmodels import linalg
from rpmodels.errors import NumericalError

SOURCE = pathlib.Path(linalg.__file__).parents[1]


def matrix(n=4):
    root = torch.randn(3, n, n, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return root @ root.mT + torch.eye(n, dtype=torch.float64)


def test_solve_inverse_and_log_det():
    a = matrix()
    factor = linalg.cholesky(a, "a test matrix")
    b = torch.ones(3, 4, dtype=torch.float64)
    torch.testing.assert_close((a @ linalg.solve(factor, b)[..., None])[..., 0], b)
    torch.testing.assert_close(linalg.inverse(factor) @ a, torch.eye(4, dtype=torch.float64).expand(3, 4, 4))
    torch.testing.assert_close(linalg.log_det(factor), torch.logdet(a))


def test_a_good_matrix_gets_no_jitter():
    a = matrix()
    factor = linalg.cholesky(a, "a test matrix")
    torch.testing.assert_close(factor @ factor.mT, a, rtol=1e-14, atol=1e-14)


def test_a_singular_matrix_gets_a_small_one():
    singular = torch.ones(3, 3, dtype=torch.float64)
    factor = linalg.cholesky(singular, "a test matrix")
    assert (factor @ factor.mT - singular).abs().max() < 1e-8


def test_an_indefinite_matrix_is_named():
    with pytest.raises(NumericalError, match=r"a test matrix is not positive definite \(1 of 1 matrices"):
        linalg.cholesky(-torch.eye(3)[None], "a test matrix")


def test_nothing_else_factorises_a_matrix_adds_jitter_or_starts_processes():
    """House rules that the import linter cannot see."""
    only = {"cholesky_ex": "linalg/dense.py", "set_num_threads": "learning/parallel.py", "logaddexp": "", "slogdet": ""}
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            name = node.attr if isinstance(node, ast.Attribute) else None
            if name in only:
                assert path.relative_to(SOURCE).as_posix() == only[name], f"{name} in {path}"
            assert name != "distributed" or path.name == "distributed.py"
            owner = node.value if isinstance(node, ast.Attribute) else None
            direct = name == "cholesky" and isinstance(owner, ast.Attribute) and owner.attr == "linalg"
            assert not direct, f"torch.linalg.cholesky in {path}"


def test_shapes_are_checked_at_run_time():
    """Otherwise every annotation in the library would go unread."""
    with pytest.raises(TypeCheckError):
        linalg.solve(torch.eye(3), torch.ones(2))
