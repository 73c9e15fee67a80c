"""How many calls a piece of work makes: a measure of its cost that does not depend on the machine."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable

import pytest


def counted(monkeypatch: pytest.MonkeyPatch, module: object, name: str, work: Callable[[], object]) -> int:
    calls, really = [0], getattr(module, name)

    def count(*args: object, **kwargs: object) -> object:
        calls[0] += 1
        return really(*args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(module, name, count)
        work()
    return calls[0]


def calls(work: Callable[[], object]) -> int:
    """Of functions, Python's own too, and steps of generators."""
    found = [0]

    def note(frame: object, event: str, argument: object) -> None:
        found[0] += event in ("call", "c_call")

    gc.disable()  # or functions that others have asked it to call count as well
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
        gc.enable()
    return found[0]
