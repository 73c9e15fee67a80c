"""All overrides of a case in benchdnn's order, which matters: shapes, batch and attributes; op kinds; fpmath; dtypes; properties."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from benchgraph import ops
from benchgraph.core.dtypes import DType
from benchgraph.core.errors import BenchgraphError, InvalidArguments, within
from benchgraph.core.tensor import PropertyType
from benchgraph.graph.check import validate
from benchgraph.graph.ir import Graph
from benchgraph.graph.override.attrs import set_attrs
from benchgraph.graph.override.batch import set_batch
from benchgraph.graph.override.draft import Draft, inferred, settle
from benchgraph.graph.override.dtypes import with_dtype, with_dtypes, with_fpmath, with_properties
from benchgraph.graph.override.kinds import with_kinds
from benchgraph.graph.override.layout import NewShape
from benchgraph.graph.override.shapes import set_shapes

T = TypeVar("T")


@dataclass(frozen=True)
class Overrides:
    """Each field is the option of that name; empty ones change nothing. By tensor id: in_shapes, dts, tensor_property; by op id: op_attrs
    (name -> value as text) and op_kind. attr_fpmath: mode, and whether it applies to integers too.
    """

    in_shapes: Mapping[int, NewShape] = field(default_factory=dict)
    mb: int = 0
    op_attrs: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    op_kind: Mapping[int, str] = field(default_factory=dict)
    attr_fpmath: tuple[str, bool] | None = None
    dt: DType = DType.undef
    dts: Mapping[int, DType] = field(default_factory=dict)
    tensor_property: Mapping[int, PropertyType] = field(default_factory=dict)


class BadOverride(InvalidArguments):
    """The graph is valid, but an override does not fit it; `where` begins with the option."""


def rewrite(graph: Graph, overrides: Overrides) -> Graph:
    """The graph with all overrides; legal and shape-inferred. It need not be legal before, nor in between.

    Raises BadOverride, or, if the graph itself is invalid, the error of `validate`.
    """
    o, draft = overrides, Draft(graph)
    for op in graph.ops:
        if op.id not in {**o.op_attrs, **o.op_kind}:  # which may correct it
            with within(op.label):
                ops.check_form(op.kind, op.attrs, len(op.inputs), len(op.outputs))
    stages = [("", graph)]
    shaped = [("--in-shapes", o.in_shapes), ("--mb", o.mb), ("--op-attrs", o.op_attrs)]
    if names := " ".join(option for option, value in shaped if value):
        draft = _blaming("--in-shapes", set_shapes, draft, o.in_shapes)
        draft = _blaming("--mb", set_batch, draft, o.mb)
        draft = _blaming("--op-attrs", set_attrs, draft, o.op_attrs)
        stages.append((names, _settled(graph, draft, names)))
    changes: list[tuple[str, object, Callable[[Graph], Graph]]] = [
        ("--op-kind", o.op_kind, lambda g: with_kinds(g, o.op_kind)),
        ("--attr-fpmath", o.attr_fpmath, lambda g: with_fpmath(g, *o.attr_fpmath or ("strict",))),
        ("--dt", o.dt is not DType.undef, lambda g: with_dtype(g, o.dt)),
        ("--dt", o.dts, lambda g: with_dtypes(g, o.dts)),
        ("--tensor-property", o.tensor_property, lambda g: with_properties(g, o.tensor_property)),
    ]
    for option, value, change in changes:
        if value:
            stages.append((option, _blaming(option, change, stages[-1][1])))
    try:
        return validate(stages[-1][1])
    except BenchgraphError as bad:
        option = next(option for option, after in stages if not _is_legal(after))
        if not option:
            raise
        raise _blamed(option, bad) from bad


def _settled(graph: Graph, draft: Draft, options: str) -> Graph:
    """The settled draft. If that fails, it is the options' fault, unless the graph is invalid without them too."""
    try:
        return settle(draft)
    except BenchgraphError as bad:
        if inferred(graph) is None:
            raise
        raise _blamed(options, bad) from bad


def _blaming(option: str, change: Callable[..., T], *given: object) -> T:
    try:
        return change(*given)
    except BenchgraphError as bad:
        raise _blamed(option, bad) from bad


def _blamed(option: str, bad: BenchgraphError) -> BadOverride:
    return BadOverride(bad.what, where=f"{option}: {bad.where}" if bad.where else option, fix=bad.fix)


def _is_legal(graph: Graph) -> bool:
    try:
        validate(graph)
    except BenchgraphError:
        return False
    return True
