"""graph: runs oneDNN Graph JSON dumps. `benchgraph --driver graph --mb=4 --case=mlp.json`"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchgraph.options.knobs import knob
from benchgraph.options.parsers import NOTHING, PerId, attr_texts, dtypes, fpmath, natural, new_shape, per_id, property_type
from benchgraph.options.problem import Driver

from ._overrides import expected, expected_partitions, of_values, rewritten

if TYPE_CHECKING:
    from benchgraph.graph import Graph
    from benchgraph.graph.override import Overrides


@dataclass(frozen=True)
class Knobs:
    """Names, defaults and order in the repro line are benchdnn's."""

    mb: int = knob(0, natural, "N[,N...]", "replace the batch dimension; 0 = keep the file's", product=True)
    dt: Any = knob(  # a DType, or a PerId of DTypes
        NOTHING,
        dtypes,
        "DT[,...] or ID:DT[+ID:DT...][,...]",
        "compute in f32, bf16 or f16, where the graph does not convert dtypes; or change the dtype of single tensors",
        product=True,
    )
    op_kind: PerId = knob(
        NOTHING,
        per_id(str, "0:Add+3:undef"),
        "OP:KIND[+...][,...]",
        "exchange an op for another of its family (binary, eltwise); undef takes it out",
        product=True,
    )
    tensor_property: PerId = knob(
        NOTHING,
        per_id(property_type, "3:host_scalar"),
        "ID:{undef,variable,constant,host_scalar}[+...][,...]",
        "change what tensors are",
        product=True,
    )
    in_shapes: PerId = knob(
        NOTHING,
        per_id(new_shape, "0:2x3*ba+1:3x4"),
        "ID:SHAPE[*LAYOUT][+...][,...]",
        "dims of graph inputs (- for a scalar), and layouts of inputs and outputs: a tag such as acdb, or strides such as 12x4x1",
        product=True,
    )
    op_attrs: PerId = knob(
        NOTHING,
        per_id(attr_texts, "0:strides:2x2*groups:1"),
        "OP:NAME:VALUE[*NAME:VALUE...][+...][,...]",
        "set attributes; lists are joined by x, undef removes one",
        product=True,
    )
    attr_fpmath: str = knob("", fpmath, "MODE[:BOOL][,...]", "strict, bf16, f16, tf32 or any; true: for integers too", product=True)
    expected_n_partitions: int = expected_partitions(1)
    case: str = knob("", str, "FILE", "the JSON file; runs it with the options so far")


# benchdnn's nesting of the loops over alternatives, the outermost first
LOOPS = ("in_shapes", "op_attrs", "expected_n_partitions", "attr_fpmath", "op_kind", "tensor_property", "dt", "mb")


def overrides(knobs: Knobs) -> Overrides:
    from benchgraph.graph.override import Overrides

    return Overrides(
        in_shapes=knobs.in_shapes.by_id,
        mb=knobs.mb,
        op_attrs={id: dict(texts.entries) for id, texts in knobs.op_attrs.entries},
        op_kind=knobs.op_kind.by_id,
        **of_values(knobs),
    )


def build(knobs: Knobs, file: Path) -> Graph:
    # imported here: the options are read, and --help printed, without loading numpy
    from benchgraph.graph import read, row_major

    return rewritten(row_major(read(file)), overrides(knobs), file)


EXAMPLES = ("--graph --mb=32,128 --case=mlp.json", "--mode=P --graph --dt=bf16 --in-shapes=0:8x13 --case=mlp.json")
DRIVER = Driver("graph", "oneDNN Graph JSON dumps", Knobs, build, expected, LOOPS, examples=EXAMPLES)
