"""A graph as oneDNN's primitives, through their C API: the baseline that fuses post-ops and keeps layouts, and compiles nothing.

step.py       a step: a primitive with the ops around it; its tensors as operands
families/     each sort of step as messages, one file per family of primitives
table.py      which family computes an op kind
plan.py       a graph as steps
library.py    the Library in this process
execution.py  steps bound to arrays, alone and as a chain
in_numpy.py   what no primitive computes, by the op table's reference functions
messages.py   messages between the two processes
session.py    what oneDNN's process does with them
builder.py    layouts and reorders there
executable.py memory and tables of executions there
handles.py    oneDNN's objects there
capi.py       declarations of the C API
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchgraph.library.protocol import Library


def primitives_library(path: str = "", label: str = "") -> Library:
    """oneDNN's primitives as a library under test. path: of libdnnl.so; '' = the first that is found. label: under another one it is
    another process.

    Raises InvalidArguments if there is none that fits.
    """
    from benchgraph.onednn.primitives.library import OneDnnPrimitives  # imports numpy, which oneDNN's process does not

    return OneDnnPrimitives(path, label)
