from __future__ import annotations

import ctypes

import pytest

from benchgraph.core.config import override
from benchgraph.core.target import ISAS, host, missing
from benchgraph.runtime.code import load
from benchgraph.runtime.jit import jit
from benchgraph.runtime.threads import runtime_symbol

ANSWER = """
declare i64 @outside()
define i64 @answer() {
  %x = call i64 @outside()
  %y = add i64 %x, 2
  ret i64 %y
}
"""
CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int64)


def test_external_symbols_are_the_given_addresses() -> None:
    outside = CALLBACK(lambda: 40)
    code = load(ANSWER, host().isa, {"outside": ctypes.cast(outside, ctypes.c_void_p).value or 0, "not used": 1})
    assert CALLBACK(code.address("answer"))() == 42


def test_two_codes_may_bind_one_symbol_differently() -> None:
    both = [CALLBACK(lambda n=n: n) for n in (1, 2)]
    codes = [load(ANSWER, host().isa, {"outside": ctypes.cast(c, ctypes.c_void_p).value or 0}) for c in both]
    assert [CALLBACK(c.address("answer"))() for c in codes] == [3, 4]


def test_an_unknown_function_is_a_key_error() -> None:
    with pytest.raises(KeyError, match="nobody"):
        load("define void @f() { ret void }", host().isa, {}).address("nobody")


@pytest.mark.parametrize("text", ["define void @f( {", "define void @f() { %x = add i64 %y, 1 \n ret void }"])
def test_ir_that_llvm_refuses_raises(text: str) -> None:
    with pytest.raises(RuntimeError, match="LLVM IR parsing error"):
        load(text, host().isa, {})


def test_the_texts_of_every_stage_are_there() -> None:
    code = load("define i64 @f() {\n  %x = add i64 1, 2\n  ret i64 %x\n}", host().isa, {})
    assert "add" in code.text
    assert "ret i64 3" in code.optimized_ir()
    assert "$3" in code.assembly()


def test_the_isa_level_limits_the_vector_registers() -> None:
    double = "%x = load <16 x float>, ptr %p, align 4\n %y = fadd <16 x float> %x, %x\n store <16 x float> %y, ptr %p, align 4"
    text = f"define void @f(ptr %p) {{\n {double}\n ret void }}"
    for isa in ISAS.values():
        if not missing(isa):
            assembly = load(text, isa, {}).assembly()
            assert [w in assembly for w in ("zmm", "ymm")] == [isa.lanes == 16, isa.lanes == 8]


def test_jit_binds_the_configured_runtime() -> None:
    text = "declare void @benchgraph_parallel(ptr, ptr, i64)\ndefine ptr @f() { ret ptr @benchgraph_parallel }"
    with override(runtime="seq"):
        code = jit(text, host())
    assert ctypes.CFUNCTYPE(ctypes.c_void_p)(code.address("f"))() == runtime_symbol("seq", host().cores)
    assert code.threads == host().cores
