"""The table of the bridge: its cells, and that results are compared before they are timed."""

from __future__ import annotations

from typing import Any

import pytest
from click.testing import CliRunner

torch = pytest.importorskip("torch", reason="PyTorch is not installed (pip install 'benchgraph[torch]')")

from benchgraph.core.errors import BenchgraphError  # noqa: E402
from benchgraph.torch import table  # noqa: E402
from benchgraph.torch.__main__ import main  # noqa: E402
from benchgraph.torch.program import Program  # noqa: E402


@pytest.fixture(autouse=True)
def no_inductor(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would start a C++ compiler; a backend that cannot compile stands in for a machine without one."""
    real = torch.compile

    def fail(module: Any, inputs: Any) -> Any:
        raise RuntimeError("no C++ compiler")

    def compile(model: Any, *, backend: Any, **more: Any) -> Any:
        return real(model, backend=fail if backend == "inductor" else backend, **more)

    monkeypatch.setattr(torch, "compile", compile)


def test_the_command_prints_what_was_offloaded_and_the_times() -> None:
    done = CliRunner().invoke(main, ["--model=mlp", "--dtype=bf16", "--batch=2", "--size=1", "--rounds=2"])
    assert done.exit_code == 0, done.output
    row = next(line for line in done.output.splitlines() if line.startswith("│ mlp"))
    cells = [cell.strip() for cell in row.strip("│").split("│")]
    assert cells[:5] == ["mlp", "bf16", "2", "5 / 5", "1"]
    assert cells[7:9] == ["n/a", "n/a"]
    assert all(float(cells[i]) > 0 for i in (5, 9))
    assert "mlp bf16: no inductor: " in done.output
    assert "no C++ compiler" in done.output
    assert f"PyTorch {torch.__version__}" in done.output


def test_a_wrong_result_is_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    real = Program.__call__
    monkeypatch.setattr(Program, "__call__", lambda self, args: [y * 1.01 for y in real(self, args)])
    with pytest.raises(BenchgraphError, match="mlp f32 benchgraph: it is off by"):
        table.measure("mlp", "f32", 2, 2, size=1)
    done = CliRunner().invoke(main, ["--model=mlp", "--dtype=f32", "--batch=2", "--size=1", "--rounds=2"])
    assert done.exit_code == 1
    assert "off by" in done.output
