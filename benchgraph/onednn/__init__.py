"""The real oneDNN behind the library protocol, through its Graph C API and ctypes. No compiler is needed.

find.py               which library: a path, BENCHGRAPH_ONEDNN, an installed wheel, the system's
encode.py             a graph of ours as messages; table.py: oneDNN's enumerations, and the version that brought each entry
library.py            OneDnn, the Library in this process: what the harness compiles, binds and times
client.py             the handle of the process in which oneDNN lives; messages.py: what the two say to each other
server.py session.py  that process: it imports neither numpy nor LLVM; capi.py: the C API's declarations; memory.py: its buffers

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
