"""The table of runtimes of whole models."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

ONNX, EXPORTED = ".onnx", ".pt2"


@dataclass(frozen=True)
class Runtime:
    """title: its name in messages. file: of its session, beside this one. reads: the suffix of the models that it runs.

    package: what it imports. extra: ours that installs it. variant: which of the ways to run a model that its session has.
    """

    title: str
    file: str
    reads: str
    package: str
    extra: str
    variant: str = ""

    @property
    def session(self) -> str:
        return str(Path(__file__).with_name(self.file))


RUNTIMES = {
    "onnxruntime": Runtime("ONNX Runtime", "onnxruntime_session.py", ONNX, "onnxruntime", "onnxruntime"),
    "openvino": Runtime("OpenVINO", "openvino_session.py", ONNX, "openvino", "openvino"),
    "torch": Runtime("PyTorch", "torch_session.py", EXPORTED, "torch", "torch"),
    "inductor": Runtime("PyTorch's inductor", "torch_session.py", EXPORTED, "torch", "torch", variant="inductor"),
}
