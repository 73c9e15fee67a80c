"""LLVM's two long steps, called without the lock that llvmlite holds during every call, so that threads can run them in parallel.

LLVM requires that no two threads share a context, a module or a target machine. llvmlite's C functions are called directly, by the names
and arguments that they have since 0.46.
"""

from __future__ import annotations

import ctypes
import os
from ctypes import c_char_p, c_int, c_size_t, c_void_p
from functools import cache
from typing import Any

import llvmlite.binding as llvm

from benchgraph.core.forks import Gate

_busy = Gate()  # a fork during these calls would leave LLVM's locks held in the child


def run(passes: llvm.ModulePassManager, module: llvm.ModuleRef, builder: llvm.PassBuilder) -> None:
    """Run the passes on the module."""
    with _busy:
        _function("LLVMPY_RunNewModulePassManager", None, c_void_p, c_void_p, c_void_p)(passes, module, builder)


def emit_object(machine: llvm.TargetMachine, module: llvm.ModuleRef) -> bytes:
    """The module as an object file. Raises RuntimeError, with LLVM's message, for an instruction that the machine lacks."""
    emit = _function("LLVMPY_TargetMachineEmitToMemory", c_void_p, c_void_p, c_void_p, c_int, ctypes.POINTER(c_char_p))
    error = c_char_p()
    with _busy:
        buffer = emit(machine, module, 1, ctypes.byref(error))
    if not buffer:
        raise RuntimeError((error.value or b"").decode())
    try:
        start = _function("LLVMPY_GetBufferStart", c_void_p, c_void_p)(buffer)
        return ctypes.string_at(start, _function("LLVMPY_GetBufferSize", c_size_t, c_void_p)(buffer))
    finally:
        _function("LLVMPY_DisposeMemoryBuffer", None, c_void_p)(buffer)


@cache
def _function(name: str, result: Any, *arguments: Any) -> Any:
    """A C function of llvmlite's library, with types that leave llvmlite's own unchanged."""
    return ctypes.CFUNCTYPE(result, *arguments)((name, _library()))


@cache
def _library() -> ctypes.CDLL:
    return ctypes.CDLL(llvm.ffi.lib._name)


def _before_fork() -> None:
    _busy.close()
    llvm.ffi.lib._lock.__enter__()


def _after_fork() -> None:
    llvm.ffi.lib._lock.__exit__()
    _busy.open()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)
