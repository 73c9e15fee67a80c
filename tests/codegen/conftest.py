"""Compile a small Tensor IR function and run it on arrays, with guards around what it writes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import pytest

from benchgraph.core.dtypes import DType
from benchgraph.machine.target import Isa
from benchgraph.tir.ir import Expr, Func
from tests.support.tir_maps import Array, Mapping, Together, assert_same_values, isa_levels, run_function, run_maps


class Run(Protocol):
    def __call__(
        self, func: Func, ins: Sequence[Array], *, isa: Isa | None = ..., threads: int = ..., runtime: str = ..., shift: int = ...
    ) -> list[Array]:
        """Compile func, whose params are the inputs and then the outputs, and return the outputs.

        Outputs start as 0x5A bytes, `shift` bytes off alignment, between guards that must not change.
        """


class Mapped(Protocol):
    def __call__(self, f: Callable[..., Expr], ins: Sequence[Array], dtypes: Sequence[DType], dst: DType) -> Array:
        """dst[i] = f(ins[0][i], ...) on the `isa` and with the `lanes` of the test; the last vector is masked.

        ins: the elements, whatever the dtype. Nothing can be read beyond the end of their memory.
        """


@pytest.fixture(params=isa_levels().values(), ids=isa_levels())
def isa(request: pytest.FixtureRequest) -> Isa:
    """Each of `isa_levels`."""
    return request.param


@pytest.fixture(params=["scalar", "vector"])
def lanes(request: pytest.FixtureRequest, isa: Isa) -> int:
    return 1 if request.param == "scalar" else isa.lanes


@pytest.fixture
def run() -> Run:
    return run_function


@pytest.fixture
def mapped(isa: Isa, lanes: int) -> Mapped:
    def apply(f: Callable[..., Expr], ins: Sequence[Array], dtypes: Sequence[DType], dst: DType) -> Array:
        return run_maps([Mapping(f, ins, dtypes, dst)], isa, lanes)[0]

    return apply


@pytest.fixture
def together(isa: Isa, lanes: int) -> Together:
    def apply(cases: dict[str, Mapping]) -> dict[str, Array]:
        return dict(zip(cases, run_maps(list(cases.values()), isa, lanes), strict=True))

    return apply


@pytest.fixture
def same() -> Callable[[Array, Array], None]:
    return assert_same_values
