"""Annotations are checked while the tests run: the first calls of every function in every test."""

import jaxtyping
import pytest
import torch

import typechecker
from rpmodels.families import Categorical

WRONG = torch.zeros(2, 3, dtype=torch.int64)


def test_a_call_that_breaks_its_annotations_is_found():
    with pytest.raises(jaxtyping.TypeCheckError):
        Categorical(3).mean(WRONG)


def test_later_calls_are_not_looked_at_until_the_next_test():
    for _ in range(typechecker.CALLS):
        Categorical(3).mean(torch.zeros(2, 3))
    with pytest.raises(Exception, match="softmax"):  # by torch, which was reached
        Categorical(3).mean(WRONG)
    typechecker.counted.clear()
    with pytest.raises(jaxtyping.TypeCheckError):
        Categorical(3).mean(WRONG)
