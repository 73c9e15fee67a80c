"""The real oneDNN behind the library protocol, through its Graph C API and ctypes. No compiler is needed.

find_library.py  looks up the library: a path, BENCHGRAPH_ONEDNN, an installed wheel, the system's
table.py         oneDNN's enumerations, with the version that introduced each entry
messages.py      messages between the two processes
encode.py        encodes our graph as messages
library.py       OneDnn, the Library in this process, which the harness uses
client.py        the handle of oneDNN's process
server.py        that process, which imports neither numpy nor LLVM
session.py       oneDNN loaded in that process, with its objects by number
capi.py          declarations of the C API
memory.py        buffers of that process
verbose_log.py   names of implementations, from its verbose log
dispatch.py      why a reference implementation runs
memory_plan.py   which intermediate values share memory
primitives/      another library of the same files: a graph as primitives, without the Graph API

oneDNN has a process of its own, so that two thread runtimes never share one, and a crash in it costs one case.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchgraph.library.protocol import Library


def onednn_library(path: str = "", label: str = "") -> Library:
    """oneDNN as a library under test. path: of libdnnl.so; '' = the first that is found. label: under another one it is another process.

    Raises InvalidArguments if there is none that fits.
    """
    from benchgraph.onednn.library import OneDnn  # imports numpy, which oneDNN's process does not

    return OneDnn(path, label)
