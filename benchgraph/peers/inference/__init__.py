"""Runtimes of whole models as libraries under test: --library=onnxruntime, openvino, torch, inductor.

runtimes.py              the table of them: what each reads, and what installs it
library.py               ModelRuntime, the Library in this process, which the harness uses
onnx_names.py            names in an ONNX file, for what profilers tell
client.py                the handle of a runtime's process
server.py                runs in that process; standard library, numpy and one of the sessions
onnxruntime_session.py   ONNX Runtime: how it is set up, run and profiled
openvino_session.py      OpenVINO, likewise
torch_session.py         PyTorch, eager or by inductor, likewise

A runtime gets the model's file, not our graph of it, and does with it what it does for its users. It has a process of its own, since each
brings a thread pool, and PyTorch an OpenMP library that ours would take as well; and so that a crash in it costs one case. The process may
be that of another Python environment, so that two versions of a runtime can be compared. Data and times take the same way as those of
oneDNN's process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchgraph.library.protocol import Library


def model_runtime(kind: str, place: str = "", label: str = "") -> Library:
    """The runtime of a kind, in the Python environment at `place`; under another label it is another process.

    Raises InvalidArguments, with a remedy, if it is not installed there, or cannot be used.
    """
    from benchgraph.peers.inference.library import ModelRuntime

    return ModelRuntime(kind, place, label)
