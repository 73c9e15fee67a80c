"""Arrays in all states under all requests (tests/framework/matrix.py), and whether the matrix detects injected faults.

The faults are those that an integration of this kind had, or may have; each is put into the framework as it is.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from benchgraph.framework import ndarray, request
from benchgraph.framework.memory_desc import Bytes, MemoryDesc
from benchgraph.framework.ndarray import NDArray
from benchgraph.framework.request import Action, OpReq, Output
from benchgraph.framework.shared_storage import Chunk, Store
from benchgraph.framework.temp_space import Memory
from tests.framework.matrix import LAYOUTS, Fault, Shape, check

CASES: dict[Shape, int] = {(1152,): 900, (24, 48): 11_000, (24, 3, 4, 4): 11_000, (24, 1, 3, 4, 4): 7_000, (2, 19, 5, 6): 7_000}
STEP = 5  # every fifth case with an output of its own: prime to the numbers of ops and of requests, so each of them comes with each state


@pytest.mark.parametrize("shape", LAYOUTS, ids=lambda s: "x".join(map(str, s)))
def test_every_state_under_every_request(shape: Shape, pytestconfig: pytest.Config) -> None:
    """I1 to I4, I12, I15: most of the cases have an opaque operand. --exhaustive: all 46 000 cases."""
    step = 1 if pytestconfig.getoption("--exhaustive") else STEP
    counts = check(shape, step)
    assert counts.cases > CASES[shape] // step
    opaque = sum(n for state, n in counts.states.items() if "opaque" in state)
    assert opaque > counts.cases / 2


# ---- what it must see ------------------------------------------------------------------------------------------------

Patch = pytest.MonkeyPatch


def reading_drops_the_layout_of_another_rank(patch: Patch) -> None:
    """B1: a first read is right, later ones are not."""
    honest = NDArray.readable_store

    def mistaken(a: NDArray, op: str = "") -> Store:
        found = honest(a, op)
        if len(found.desc.shape) != len(a.shape):
            a.chunk.current = Store(found.buffer, a.plain_desc, found.version)
        return found

    patch.setattr(NDArray, "readable_store", mistaken)


def a_slice_stays_reused(patch: Patch) -> None:
    """B2: a window on a reused array passes for the whole."""
    honest = NDArray.slice

    def mistaken(a: NDArray, begin: int, end: int) -> NDArray:
        made = honest(a, begin, end)
        made.reused = a.reused
        return made

    patch.setattr(NDArray, "slice", mistaken)


def writing_a_view_drops_the_layout_of_its_parent(patch: Patch) -> None:
    """B4: the rows beside it are then read as if they were row-major."""

    def mistaken(chunk: Chunk, where: str) -> bool:
        found = chunk.store(where)
        flat = MemoryDesc(found.desc.dtype, found.desc.shape, ndarray.describe(found.desc.dtype, found.desc.shape).layout)
        chunk.publish(Store(found.buffer, flat, found.version), where, written=False)
        return True

    patch.setattr(Chunk, "to_default", mistaken)


def in_place_although_the_layouts_differ(patch: Patch) -> None:
    """B5: the output's memory is written while the input's is read."""
    honest = Output._place

    def mistaken(o: Output, desc: MemoryDesc, req: OpReq, *rest: object) -> tuple[Action, Memory]:
        direct = o._direct(desc) if req is OpReq.write_inplace else None
        return (Action.publish, direct) if direct else honest(o, desc, req, *rest)  # type: ignore[arg-type]

    patch.setattr(Output, "_place", mistaken)


def sums_are_lost(patch: Patch) -> None:
    """B6: add_to overwrites."""
    patch.setattr(Output, "_add_back", Output._copy_back)


def sums_are_added_twice(patch: Patch) -> None:
    """B6, the other way."""
    honest = Output._add_back

    def mistaken(o: Output) -> None:
        honest(o)
        honest(o)

    patch.setattr(Output, "_add_back", mistaken)


def null_forgets_the_layout(patch: Patch) -> None:
    honest = Output._place

    def mistaken(o: Output, desc: MemoryDesc, req: OpReq, *rest: object) -> tuple[Action, Memory]:
        if req is OpReq.null and not o.array.is_view:
            found = o.array.chunk.store("")
            o.array.chunk.publish(Store(found.buffer, o.array.plain_desc, found.version), "", written=False)
        return honest(o, desc, req, *rest)  # type: ignore[arg-type]

    patch.setattr(Output, "_place", mistaken)


def opaque_bytes_are_read_as_they_are(patch: Patch) -> None:
    def mistaken(data: Bytes, desc: MemoryDesc) -> Bytes:
        return data

    patch.setattr(ndarray, "default", mistaken)


def nothing_is_opaque(patch: Patch) -> None:
    """Arrays that claim a layout and are row-major: the matrix would prove nothing."""
    patch.setattr(NDArray, "reorder_", lambda a, layout: False)


def overlaps_go_unseen(patch: Patch) -> None:
    """B7: an output is written before an input that shares its memory has been read."""
    patch.setattr(NDArray, "overlaps", lambda a, other: False)


def a_reused_array_keeps_the_layout_before(patch: Patch) -> None:
    """B3."""
    honest = Chunk.publish

    def mistaken(chunk: Chunk, store: Store, where: str, *, written: bool = True) -> None:
        old = chunk.store(where)
        keeps = written and not chunk.growable and not old.desc.is_plain and store.buffer is old.buffer
        honest(chunk, Store(store.buffer, old.desc, store.version) if keeps else store, where, written=written)

    patch.setattr(Chunk, "publish", mistaken)


def padding_is_part_of_the_values(patch: Patch) -> None:
    """The blocks are as long as memory is, so what fills the last one up is read."""
    honest = request.convert

    def mistaken(src: Bytes, src_desc: MemoryDesc, dst: Bytes, dst_desc: MemoryDesc) -> None:
        if not src_desc.is_plain and dst_desc.is_plain:
            dst[...] = np.resize(src, dst.size)
        else:
            honest(src, src_desc, dst, dst_desc)

    patch.setattr(request, "convert", mistaken)


FAULTS: list[Callable[[Patch], None]] = [
    reading_drops_the_layout_of_another_rank,
    a_slice_stays_reused,
    writing_a_view_drops_the_layout_of_its_parent,
    in_place_although_the_layouts_differ,
    sums_are_lost,
    sums_are_added_twice,
    null_forgets_the_layout,
    opaque_bytes_are_read_as_they_are,
    nothing_is_opaque,
    overlaps_go_unseen,
    a_reused_array_keeps_the_layout_before,
    padding_is_part_of_the_values,
]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda f: f.__name__)
def test_the_matrix_detects(fault: Callable[[Patch], None], monkeypatch: Patch) -> None:
    """I20: every fault fails the matrix."""
    fault(monkeypatch)
    with pytest.raises(Fault):
        check((24, 3, 4, 4), STEP)
