"""Errors of the bridge for bad input: the tensor and the op, or the option, with a remedy."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (pip install 'benchgraph[torch]')")

from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402

from benchgraph.core.errors import BenchgraphError, InvalidArguments, InvalidDataType, InvalidShape, Status  # noqa: E402
from benchgraph.library.engine import Engine  # noqa: E402
from benchgraph.partition.ir import Policy  # noqa: E402
from benchgraph.torch.options import Options, read  # noqa: E402
from benchgraph.torch.program import Program, build  # noqa: E402


@pytest.fixture(scope="module")
def program() -> Program:
    module = make_fx(lambda x, w: (torch.relu(x @ w),), tracing_mode="fake")(torch.ones(2, 4), torch.ones(4, 4))
    return build(module, frozenset({1}), Engine(), Policy.fused, ["x", "layer.weight"])


def freed() -> Any:
    gone = torch.ones(2, 4)
    gone.untyped_storage().resize_(0)
    return gone


W = torch.ones(4, 4)
BAD = [
    (torch.ones(3, 4), W, InvalidShape, r"op mm: tensor 'x': shape \(3, 4\) with strides \(4, 1\), compiled for \(2, 4\)"),
    (torch.ones(4, 2).t(), W, InvalidShape, r"op mm: tensor 'x': shape \(2, 4\) with strides \(1, 2\)"),
    (torch.ones(2, 4).double(), W, InvalidDataType, "op mm: tensor 'x': it is torch.float64, the graph was compiled for torch.float32"),
    (torch.ones(2, 4).to_sparse(), W, InvalidArguments, "op mm: tensor 'x': it lies on cpu as torch.sparse_coo"),
    (torch.empty(2, 4, device="meta"), W, InvalidArguments, "op mm: tensor 'x': it lies on meta"),
    (freed(), W, InvalidArguments, "op mm: tensor 'x': its memory has been freed"),
    (3, W, InvalidArguments, "op mm: tensor 'x': it is a int"),
    (torch.ones(2, 4), torch.ones(4, 3), InvalidShape, "op mm: tensor 'layer.weight': shape"),
]


@pytest.mark.parametrize(("x", "w", "error", "says"), BAD, ids=["shape", "strides", "dtype", "sparse", "meta", "freed", "number", "weight"])
@torch.no_grad()
def test_inputs_that_the_graph_was_not_compiled_for(program: Program, x: Any, w: Any, error: type[BenchgraphError], says: str) -> None:
    with pytest.raises(error, match=says):
        program([x, w])
    (right,) = program([torch.ones(2, 4), W])
    assert torch.equal(right, torch.full((2, 4), 4.0))  # and goes on as ever


@torch.no_grad()
def test_a_freed_weight_of_a_compiled_model_is_named() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 4)).eval()
    run = torch.compile(model, backend="benchgraph")
    run(torch.ones(2, 4))
    model[0].weight.untyped_storage().resize_(0)
    with pytest.raises(InvalidArguments, match=r"tensor '0\.weight': its memory has been freed"):
        run(torch.ones(2, 4))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"polcy": "fused"}, r"torch.compile: options: there is no option 'polcy'; did you mean 'policy'"),
        ({"policy": "best"}, "the policy is 'best'; use one of fused"),
        ({"constants": "no"}, "constants is 'no'; give a bool"),
        ({"dump": 1}, "dump is 1; give a str"),
    ],
)
def test_options_that_are_none(options: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidArguments, match=says) as caught:
        read(options)
    assert caught.value.status is Status.invalid_arguments
    assert read({"policy": "one_op_each", "constants": False}) == Options(Policy.one_op_each, False)
    with pytest.raises(Exception, match=says):
        torch.compile(torch.nn.Linear(4, 4), backend="benchgraph", options=options)(torch.ones(2, 4))


@torch.no_grad()
def test_a_dump_that_cannot_be_written_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    run = torch.compile(torch.nn.Linear(4, 4), backend="benchgraph", options={"dump": str(tmp_path / "file")})
    with pytest.raises(Exception, match=r"dump: cannot write .*file/torch-[0-9a-f]{8}\.json: .*; name a directory of yours"):
        run(torch.ones(2, 4))


def test_modes_are_another_compilers() -> None:
    with pytest.raises(Exception, match="there is no mode 'max-autotune'; leave the mode out"):
        torch.compile(torch.nn.Linear(4, 4), backend="benchgraph", mode="max-autotune")(torch.ones(2, 4))


def test_policies_decide_what_runs_together() -> None:
    from benchgraph.torch import recorded

    model, x = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU()).eval(), torch.ones(2, 4)
    with torch.no_grad(), recorded() as graphs:
        torch.compile(model, backend="benchgraph", options={"policy": "one_op_each"})(x)
    assert graphs[0].partitions == (("addmm",), ("relu",))


def test_benchgraph_does_not_import_pytorch() -> None:
    code = "import sys, benchgraph, benchgraph.framework, benchgraph.cli; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[2])


def test_the_bridge_registers_itself() -> None:
    assert "benchgraph" in torch._dynamo.list_backends()
    assert torch._dynamo.lookup_backend("benchgraph") is not None
