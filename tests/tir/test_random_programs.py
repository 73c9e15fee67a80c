"""Random small programs: every pass that changes them keeps what they mean, and every stage satisfies the verifier."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from benchgraph.core.config import override
from benchgraph.machine.target import ISAS
from benchgraph.tir.ir import Func
from benchgraph.tir.passes import PIPELINE, run
from tests.support.tir_programs import TARGET, assert_same
from tests.tir.random_programs import functions


@settings(max_examples=60, derandomize=True)
@given(functions(), st.sampled_from(list(ISAS.values())), st.sampled_from([1, 4, 64]))
def test_pipeline_preserves_meaning(original: Func, isa, cores: int) -> None:
    target = replace(TARGET, isa=isa, cores=cores)
    f = original
    with override(verify=2):
        for p in PIPELINE:
            after = run(f, target, pipeline=(p,))
            if after is not f:
                assert_same(after, original)
            f = after
