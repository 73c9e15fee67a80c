"""The pipeline as a whole: it preserves what functions mean, and its order is sound."""

from __future__ import annotations

import pytest

from benchgraph.core.passes import check_order
from benchgraph.tir.passes import PIPELINE, run
from benchgraph.tir.verify import verify
from tests.support.tensor_ir import before
from tests.support.tir_programs import PROGRAMS, TARGET, assert_same


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_every_pass_preserves_semantics(program) -> None:
    original = program()
    verify(original)
    f = original
    for p in PIPELINE:
        f = run(f, TARGET, pipeline=(p,))
        assert_same(f, original)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_every_pass_is_idempotent(program) -> None:
    f = run(program(), TARGET)
    assert all(p.fn(f, TARGET) is f for p in PIPELINE)


def test_pipeline_order_satisfies_the_requirements() -> None:
    check_order(PIPELINE)


def test_vectorise_before_flatten_index_is_refused() -> None:
    with pytest.raises(ValueError, match="vectorise needs"):
        check_order(before("flatten-index") + tuple(p for p in PIPELINE if p.name == "vectorise"))
