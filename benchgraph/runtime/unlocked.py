"""LLVM's two long steps, run without the lock that llvmlite holds over every call, so that several threads can be at them.

What LLVM asks for is what its own concurrent compilers keep to: no two threads share a context, a module or a target machine. llvmlite's
functions are called past its wrappers, by the names and arguments that it has for them since 0.46.
"""

from __future__ import annotations

import ctypes
import os
from ctypes import c_char_p, c_int, c_size_t, c_void_p
from functools import cache
from typing import Any

import llvmlite.binding as llvm

from benchgraph.core.forks import Gate

_busy = Gate()  # a fork in the midst of these would leave LLVM's own locks held in the child


def run(passes: llvm.ModulePassManager, module: llvm.ModuleRef, builder: llvm.PassBuilder) -> None:
    """Run the passes on the module."""
    with _busy:
        _function("LLVMPY_RunNewModulePassManager", None, c_void_p, c_void_p, c_void_p)(passes, module, builder)


def emit_object(machine: llvm.TargetMachine, module: llvm.ModuleRef) -> bytes:
    """The module as an object file. Raises RuntimeError, with LLVM's words, when there is no code for something."""
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
    """Of llvmlite's library. This handle of it has types of its own: llvmlite's are as they were."""
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


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)
