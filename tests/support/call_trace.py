"""What Python does during a call: for showing that execution is compiled code and nothing else."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from types import FrameType


def python_calls(call: Callable[[], object]) -> list[str]:
    """The Python functions that run during a call, and the C functions called by name, in order, each with its module.

    A ctypes function shows in neither list, and neither do operators: what a function on the list can reach is read from its code.
    """
    seen = list[str]()

    def note(frame: FrameType, event: str, arg: object) -> None:
        if event == "call":
            seen.append(f"{frame.f_globals['__name__']}.{frame.f_code.co_qualname}")
        elif event == "c_call":
            home = getattr(arg, "__module__", None) or type(getattr(arg, "__self__", None)).__module__
            seen.append(f"{home}.{getattr(arg, '__qualname__', arg)}")

    is_collecting = gc.isenabled()
    gc.disable()  # what hypothesis and others do at a collection is no part of the call
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
        if is_collecting:
            gc.enable()
    return seen[:-1]  # sys.setprofile itself
