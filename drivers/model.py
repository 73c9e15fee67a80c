"""model: whole networks with their weights. `benchgraph --model --case=resnet50.onnx`"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchgraph.options.knobs import knob
from benchgraph.options.parsers import NOTHING, PerId, PerName, dtypes, fpmath, natural, new_shape, per_id, per_name, property_type
from benchgraph.options.problem import CannotOverride, Driver

from ._overrides import expected, expected_partitions, of_values, rewritten

if TYPE_CHECKING:
    from benchgraph.graph import Graph
    from benchgraph.graph.model import Model
    from benchgraph.graph.override import Overrides
    from benchgraph.importers.sizes import Sizes


@dataclass(frozen=True)
class Knobs:
    """The graph driver's, but for those that make another network of it."""

    mb: int = knob(0, natural, "N[,N...]", "the batch size; 0 = keep the file's", product=True)
    dt: Any = knob(  # a DType, or a PerId of DTypes
        NOTHING, dtypes, "DT[,...] or ID:DT[+ID:DT...][,...]", "compute in f32, bf16 or f16; weights are rounded to it", product=True
    )
    in_shapes: PerName = knob(
        PerName(),
        per_name(new_shape, "input_ids:1x128+mask:1x128"),
        "NAME:SHAPE[*LAYOUT][+...][,...]",
        "dims of the model's inputs, by its own names or tensor ids, and their layouts; sizes of its open dims, by theirs (batch:8)",
        product=True,
    )
    tensor_property: PerId = knob(
        NOTHING,
        per_id(property_type, "3:variable"),
        "ID:{undef,variable,constant,host_scalar}[+...][,...]",
        "change what tensors are",
        product=True,
    )
    attr_fpmath: str = knob("", fpmath, "MODE[:BOOL][,...]", "strict, bf16, f16, tf32 or any; true: for integers too", product=True)
    expected_n_partitions: int = expected_partitions(0)
    case: str = knob("", str, "FILE", "the model: .onnx, .pt2, or .json with .safetensors beside it; runs it with the options so far")


LOOPS = ("in_shapes", "expected_n_partitions", "attr_fpmath", "tensor_property", "dt", "mb")


def model(knobs: Knobs, file: Path) -> Model:
    """The model with the overrides. Raises BenchgraphError."""
    # imported here: the options are read, and --help printed, without loading numpy
    from benchgraph.core.dtypes import DType
    from benchgraph.core.errors import within
    from benchgraph.graph.override import BadOverride
    from benchgraph.importers.sizes import Sizes

    shapes = tuple((name, shape.dims) for name, shape in knobs.in_shapes.entries if shape.dims is not None)
    try:
        found = _read(file, _stamp(file), Sizes(knobs.mb, shapes))
    except BadOverride as bad:
        raise CannotOverride(bad.what, where=bad.where, fix=bad.fix) from bad
    with within(str(file)):
        changes = _overrides(knobs, found)
    try:
        graph = rewritten(found.graph, changes, file)
        _need_data(found, graph, file)
    except CannotOverride as bad:
        if found.source is None or not (changes.mb or changes.in_shapes):
            raise
        what = f"the file fixes its sizes, and the model does not follow at others: {bad.what}"
        raise CannotOverride(what, where=bad.where, fix=_opening(found)) from bad
    is_same = changes.dt is DType.undef and not changes.dts
    return replace(found, graph=graph, source=found.source if is_same else None)


def build(knobs: Knobs, file: Path) -> Graph:
    return model(knobs, file).graph


@lru_cache(maxsize=1)  # a case asks for its graph, its data and its names
def _read(file: Path, stamp: tuple[int, ...], sizes: Sizes) -> Model:
    from benchgraph.importers.model import read_model

    return read_model(file, sizes)


def _stamp(file: Path) -> tuple[int, ...]:
    """What changes when the file is written, or the one with the data beside it."""
    from benchgraph.importers.model_files import data_file

    found = list[int]()
    for each in (file, data_file(file)):
        try:
            stat = each.stat()
        except (OSError, ValueError):
            found.append(0)
        else:
            found += stat.st_ino, stat.st_size, stat.st_mtime_ns
    return tuple(found)


def _overrides(knobs: Knobs, found: Model) -> Overrides:
    """What is left to change after reading. Raises CannotOverride for a name that the model does not have."""
    from benchgraph.core.errors import did_you_mean
    from benchgraph.graph.override import Overrides

    ids = {str(t.id): t.id for t in found.graph.inputs} | dict(found.inputs) | dict(found.outputs)
    shapes = {}
    for name, shape in knobs.in_shapes.entries:
        if (name in found.dims and name not in ids) or ids.get(name) in found.unread:
            continue  # an open dim, which reading has bound; an input that the graph lacks
        if name not in ids:
            fix = did_you_mean(name, ids) or f"the inputs are {', '.join(found.inputs or ids)}"
            raise CannotOverride(f"the model has no input '{name}'", where="--in-shapes", fix=fix)
        shapes[ids[name]] = shape
    return Overrides(in_shapes=shapes, mb=0 if found.batch else knobs.mb, **of_values(knobs))


def _need_data(found: Model, graph: Graph, file: Path) -> None:
    """Raise CannotOverride where the graph takes constants of other sizes than the file has."""
    before, after = found.graph.tensors, graph.tensors
    for id in found.data:
        old, new = before[id].known_shape, after[id].known_shape
        if old != new:
            name = next((name for name, uses in found.parameters.items() if any(use.tensor == id for use in uses)), f"tensor {id}")
            what = f"its data {name!r} are of {'x'.join(map(str, old))}, where {'x'.join(map(str, new))} are needed"
            raise CannotOverride(what, where=f"{file}: --mb", fix="leave it out")


OPENING = {  # how a file gets open dims, by its kind
    ".pt2": "torch.export.export(model, inputs, dynamic_shapes={{{name!r}: {{0: torch.export.Dim('batch')}}}})",
    ".onnx": "torch.onnx.export(model, inputs, dynamic_shapes={{{name!r}: {{0: 'batch'}}}})",
}


def _opening(found: Model) -> str:
    """The remedy for a file whose sizes are fixed."""
    assert found.source is not None
    if (example := OPENING.get(found.source.suffix.lower())) is None:
        return "export it with open dims"
    return f"export it with an open dim, as by {example.format(name=next(iter(found.inputs), 'x'))}"


EXAMPLES = ("--model --mb=4 --case=model/resnet18_small.json", "--model --in-shapes=0:2x64x64x3 --case=model/resnet18_small.json")
DRIVER = Driver(
    "model", "whole networks, with weights", Knobs, build, expected, LOOPS, fill="reals", inputs="graph", model=model, examples=EXAMPLES
)
