"""The real oneDNN behind the library protocol, through its Graph C API and ctypes. No compiler is needed.

find.py      which library: a path, BENCHGRAPH_ONEDNN, an installed wheel, the system's
table.py     oneDNN's enumerations, and the version that brought each entry
messages.py  what the two processes send each other
encode.py    a graph of ours as such messages
library.py   OneDnn, the Library in this process: what the harness compiles, binds and times
client.py    the handle of the process in which oneDNN runs
server.py    that process: it imports neither numpy nor LLVM
session.py   oneDNN loaded there, its objects by number
capi.py      the C API's declarations
memory.py    that process's buffers
plan.py      which values between partitions share memory
settle.py    waits until idle threads of this process sleep

oneDNN has a process of its own, so that two thread runtimes never share one, and a crash in it costs one case.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchgraph.library.protocol import Library


def onednn_library(path: str = "") -> Library:
    """oneDNN as a library under test. path: of libdnnl.so; '' = the first that is found.

    Raises InvalidArguments when there is none, when the file is no oneDNN, and when it is too old; each says how to mend it.
    """
    from benchgraph.onednn.library import OneDnn  # numpy, which the process of oneDNN does without

    return OneDnn(path)
