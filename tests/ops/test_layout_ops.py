"""Reshape's index maps are simple: unchanged axes pass through, div and mod only where axes merge or split."""

from __future__ import annotations

import pytest

from benchgraph.core.tensor import Shape
from benchgraph.ops.layout_ops import remap
from benchgraph.tir.ir import Expr, Var
from benchgraph.tir.text import print_tir

I, J, K, L = (Var(name) for name in "ijkl")  # noqa: E741


@pytest.mark.parametrize(
    ("at", "shape", "other", "want"),
    [
        ((I, J, K), (2, 5, 12), (2, 5, 3, 4), "i, j, k//4, k%4"),
        ((I, J, K, L), (2, 5, 3, 4), (2, 5, 12), "i, j, k*4 + l"),
        ((I, J, K), (7, 1, 9), (1, 7, 9, 1), "0, i, k, 0"),
        ((I, J), (4, 6), (8, 3), "(i*6 + j)//3, (i*6 + j)%3"),
        ((I, J, K), (2, 3, 5), (6, 5), "i*3 + j, k"),
        ((I,), (24,), (2, 3, 4), "i//12, i//4%3, i%4"),
        ((), (), (1, 1), "0, 0"),
        ((I, J), (0, 3), (3, 0), "0, 0"),
    ],
)
def test_only_merging_or_splitting_axes_are_computed(at: tuple[Expr, ...], shape: Shape, other: Shape, want: str) -> None:
    assert ", ".join(print_tir(e) for e in remap(at, shape, other)) == want
