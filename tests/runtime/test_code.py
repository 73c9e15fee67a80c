from __future__ import annotations

import ctypes
import gc
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import pytest

from benchgraph.codegen.intrinsics import FAST_COMPILE, OPTIMISED, create_target_machine
from benchgraph.core.config import override
from benchgraph.core.errors import InvalidArguments
from benchgraph.machine.target import ISAS, Isa, host, missing
from benchgraph.runtime import code, llvm_without_lock
from benchgraph.runtime import jit as jit_module
from benchgraph.runtime.code import all_kept, code_generation_level, compile_cached, compile_object, link, load
from benchgraph.runtime.disk_cache import Store
from benchgraph.runtime.jit import jit, prepared_linker
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
    answer = load(ANSWER, host().isa, {"outside": ctypes.cast(outside, ctypes.c_void_p).value or 0, "not used": 1})
    assert CALLBACK(answer.address("answer"))() == 42


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


def test_the_text_of_every_stage_is_available() -> None:
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
        code = jit([text], host())
    assert ctypes.CFUNCTYPE(ctypes.c_void_p)(code.address("f"))() == runtime_symbol("seq", host().cores)
    assert code.threads == host().cores


def test_the_runtime_is_prepared_while_units_are_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """And what there is against it is raised where it is bound to."""
    is_asked = threading.Event()

    def seen(kind: str, threads: int) -> int:
        is_asked.set()
        return runtime_symbol(kind, threads)

    text = "declare void @benchgraph_parallel(ptr, ptr, i64)\ndefine ptr @f() { ret ptr @benchgraph_parallel }"
    monkeypatch.setattr(jit_module, "runtime_symbol", seen)
    with override(runtime="seq"), prepared_linker(host()) as bind:
        assert is_asked.wait(60)
        code = bind(all_kept([text], host().isa))
    assert ctypes.CFUNCTYPE(ctypes.c_void_p)(code.address("f"))() == runtime_symbol("seq", host().cores)
    with prepared_linker(replace(host(), cores=0)) as bind, pytest.raises(InvalidArguments, match="0 threads"):
        bind(())


CALLER = "declare i64 @callee()\ndefine i64 @caller() {\n %x = call i64 @callee()\n %y = mul i64 %x, 2\n ret i64 %y\n}"
CALLEE = "define hidden i64 @callee() { ret i64 21 }"


@pytest.mark.parametrize("texts", [(CALLER, CALLEE), (CALLEE, CALLER)], ids=["caller first", "callee first"])
def test_units_call_each_other(texts: tuple[str, ...]) -> None:
    linked = link(all_kept(texts, host().isa), host().isa, {})
    assert CALLBACK(linked.address("caller"))() == 42
    assert linked.text == "\n".join(texts)


def test_a_text_is_compiled_while_the_next_one_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    is_compiled = threading.Event()

    def seen(text: str, isa: Isa, opt: int) -> bytes:
        is_compiled.set()
        return compile_object(text, isa, opt)

    def written() -> Iterator[str]:
        yield CALLEE
        assert is_compiled.wait(60)
        yield CALLER

    monkeypatch.setattr(code, "compile_object", seen)
    with override(cache_dir="off"):
        assert [unit.text for unit in all_kept(written(), host().isa)] == [CALLEE, CALLER]


def test_a_unit_that_has_not_started_is_compiled_by_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two cores are two threads at work: the other one's text is ready only after one of this one's."""
    asking, is_mine_ready = threading.get_ident(), threading.Event()

    def seen(text: str, isa: Isa, opt: int) -> bytes:
        if threading.get_ident() == asking:
            is_mine_ready.set()
        else:
            assert is_mine_ready.wait(60)
        return compile_object(text, isa, opt)

    monkeypatch.setattr(code, "compile_object", seen)
    monkeypatch.setattr(code, "host", lambda: replace(host(), cores=2))
    with override(cache_dir="off"):
        units = all_kept((CALLEE, CALLER), host().isa)
    assert [unit.object for unit in units] == [compile_object(text, host().isa) for text in (CALLEE, CALLER)]


@pytest.mark.parametrize("cores", [1, 8])
def test_only_the_callers_thread_accesses_the_disk_cache(cores: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Whoever comes back from a system call waits for its turn; and remarks belong to the thread that asked."""
    at_disk = set[int]()
    for name, method in (("get", Store.get), ("put", Store.put)):
        monkeypatch.setattr(Store, name, lambda *args, method=method: (at_disk.add(threading.get_ident()), method(*args))[1])
    monkeypatch.setattr(code, "host", lambda: replace(host(), cores=cores))
    with override(cache_dir=str(tmp_path), disk_cache_capacity=16):
        first = all_kept((CALLEE, CALLER), host().isa)
        monkeypatch.setattr(code, "compile_object", lambda *_: pytest.fail("it is on disk"))
        again = all_kept((CALLEE, CALLER), host().isa)
    assert [unit.object for unit in again] == [unit.object for unit in first]
    assert at_disk == {threading.get_ident()}


BLENDED = """define <8 x i16> @f(<8 x i16> %a, <8 x i16> %b) noinline optnone {
  %r = shufflevector <8 x i16> %a, <8 x i16> %b, <8 x i32> <i32 0, i32 9, i32 2, i32 11, i32 4, i32 5, i32 6, i32 15>
  ret <8 x i16> %r
}"""


def test_optnone_units_are_compiled_at_the_fast_level() -> None:
    """At the other level LLVM 22 ends the process: it takes the blend's mask, 0b10001010, for a negative number of more than 8 bits."""
    assert compile_cached(BLENDED, host().isa).object
    assert code_generation_level(BLENDED) == FAST_COMPILE
    assert code_generation_level(CALLER) == OPTIMISED


def test_the_error_of_an_invalid_text_is_raised() -> None:
    with pytest.raises(RuntimeError, match="LLVM IR parsing error"):
        all_kept((CALLEE, "define"), host().isa)


def test_llvm_compiles_while_another_thread_has_llvmlites_lock() -> None:
    """Its two long steps, whose results are those of llvmlite's functions."""
    target_machine = create_target_machine(host().isa)
    module, passes = llvm.parse_assembly(CALLER, llvm.create_context()), llvm.create_new_module_pass_manager()
    passes.add_instruction_combine_pass()
    builder = llvm.create_pass_builder(target_machine, llvm.create_pipeline_tuning_options())
    with ThreadPoolExecutor(1) as pool, locked():
        pool.submit(llvm_without_lock.run, passes, module, builder).result(60)
        made = pool.submit(llvm_without_lock.emit_object, target_machine, module).result(60)
    assert "shl" in str(module)
    assert made == target_machine.emit_object(module)


OWNED = {  # what makes something of LLVM's, and what frees it
    "LLVMPY_ContextCreate": "LLVMPY_ContextDispose",
    "LLVMPY_CreateNewModulePassManager": "LLVMPY_DisposeNewModulePassManger",
    "LLVMPY_CreatePassBuilder": "LLVMPY_DisposePassBuilder",
    "LLVMPY_CreatePipelineTuningOptions": "LLVMPY_DisposePipelineTuningOptions",
    "LLVMPY_ParseAssembly": "LLVMPY_DisposeModule",
    "LLVMPY_CreateMCJITCompiler": "LLVMPY_DisposeExecutionEngine",
}


def test_a_compilation_frees_every_llvm_object(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that compiles for days would else grow by it. The target machine that links goes with the engine."""
    gc.collect()  # or what other tests left in cycles is freed, and counted, meanwhile
    count = Counter[str]()
    for name in [*OWNED, *OWNED.values()]:
        really = getattr(llvm.ffi.lib, name)

        def counted(*args: object, name: str = name, really: Callable[..., object] = really) -> object:
            count[name] += 1
            return really(*args)

        monkeypatch.setitem(llvm.ffi.lib._fntab, name, counted)
    for text in (CALLEE, "define void @f() { %x = add i64 %y, 1 \n ret void }"):
        with override(cache_dir="off"), suppress(RuntimeError):
            linked = link((compile_cached(text, host().isa),), host().isa, {})
            linked.optimized_ir()
            del linked
    assert all(count[made] for made in OWNED)
    assert {made: count[freed] for made, freed in OWNED.items()} == {made: count[made] for made in OWNED}


def locked() -> AbstractContextManager[None]:
    """llvmlite's lock, held by the thread that enters."""
    held: AbstractContextManager[None] = llvm.ffi.lib._lock
    return held


def test_a_failed_code_generation_raises_llvms_message(monkeypatch: pytest.MonkeyPatch) -> None:
    def refusing(name: str, *types: object) -> Callable[..., int]:
        def emit(machine: object, module: object, is_object: int, error: Any) -> int:
            error._obj.value = b"cannot select"
            return 0

        return emit

    monkeypatch.setattr(llvm_without_lock, "_function", refusing)
    with pytest.raises(RuntimeError, match="cannot select"):
        llvm_without_lock.emit_object(None, None)
