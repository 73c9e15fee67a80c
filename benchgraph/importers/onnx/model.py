"""An ONNX file read and turned into a graph, node by node.

What does not depend on the model's inputs (shapes, exported arithmetic on constants) is computed by onnx's own reference. Of everything
else a node with a row becomes ops of the library, any other a Wildcard that numpy executes (wildcards.py).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchgraph.core.arrays import Array
from benchgraph.core.dtypes import DType
from benchgraph.core.errors import InvalidArguments, ParseError, Unavailable, Unimplemented, did_you_mean, within
from benchgraph.core.free_memory import need_memory_for
from benchgraph.core.onnx_names import layer_names
from benchgraph.core.printable import quoted
from benchgraph.core.tensor import LogicalTensor, Shape
from benchgraph.graph import Graph
from benchgraph.graph.model import Model, Use
from benchgraph.importers.model_files import COPIES
from benchgraph.importers.onnx.constants import initialisers, results
from benchgraph.importers.onnx.draft import DATA_TYPES, Draft, Node, Unmapped, one_line, shape_of, type_name
from benchgraph.importers.onnx.external_data import external_files
from benchgraph.importers.onnx.functions import DOMAINS, check_functions, inlined
from benchgraph.importers.onnx.idioms import with_idioms
from benchgraph.importers.onnx.inferred import check_declared, check_sizes
from benchgraph.importers.onnx.quantised_rows import MADE_FOR_EACH, is_compressed
from benchgraph.importers.onnx.rows import ROWS
from benchgraph.importers.onnx.wildcards import copied, draws, wildcard
from benchgraph.importers.sizes import AS_IN_FILE, Bound, Dim, Sizes, bind

OLDEST = 13  # opset
SHAPE = "Shape"  # of any value: sizes are known


def read_onnx(path: Path, sizes: Sizes = AS_IN_FILE) -> Model:
    """sizes: numbers for dims that it leaves open. Raises BenchgraphError for a file that cannot be read, and for a model that cannot be
    expressed.
    """
    onnx = need_onnx()
    with within(str(path)):
        return replace(model_of(_loaded(path, onnx), sizes), source=path)


def _loaded(path: Path, onnx: Any) -> Any:
    """The file, and the data beside it that it names. Raises InvalidArguments and ParseError."""
    try:
        proto = onnx.load_model(str(path), load_external_data=False)
    except OSError as bad:
        raise InvalidArguments(f"cannot read it: {bad.strerror or bad}", fix="name an ONNX file") from bad
    except Exception as bad:  # protobuf's and onnx's errors have no class in common
        raise ParseError(f"no ONNX model: {one_line(bad)}", fix="export it again") from bad
    if not proto.ByteSize():
        raise InvalidArguments("the file is empty", fix="export the model again")
    _need_texts(proto)
    folder = path.absolute().parent
    need_memory_for(external_files(proto, folder, onnx), COPIES)
    try:
        onnx.load_external_data_for_model(proto, str(folder))
    except Exception as bad:  # as above
        raise InvalidArguments(f"its external data cannot be read: {one_line(bad)}", fix="export it again") from bad
    return proto


def _need_texts(message: Any) -> None:
    """Raise ParseError for a name that is no UTF-8: protobuf gives bytes for such a text."""
    for field, value in message.ListFields():
        if field.type == field.TYPE_STRING:
            for text in [value] if isinstance(value, str | bytes) else value:
                if not isinstance(text, str):
                    raise ParseError(f"no ONNX model: its {field.name} {quoted(text)} is no text", fix="export it again")
        elif field.type == field.TYPE_MESSAGE:
            for inner in [value] if hasattr(value, "ListFields") else value:
                _need_texts(inner)


def need_onnx() -> Any:
    """Raises Unavailable unless the extra is installed."""
    try:
        import onnx
        import onnx.inliner
        import onnx.reference
    except ImportError as bad:
        raise Unavailable("reading ONNX models needs the package onnx", fix="pip install 'benchgraph[onnx]'") from bad
    return onnx


def model_of(proto: Any, sizes: Sizes = AS_IN_FILE, constants: Mapping[str, Array] | None = None) -> Model:
    """constants: inputs that are. Raises BenchgraphError."""
    onnx = need_onnx()
    versions = {o.domain: o.version for o in proto.opset_import}
    opset = _opset(versions, onnx)
    _check_kinds(proto, opset, onnx)
    check_functions(proto)
    _check(proto, onnx)
    proto = inlined(proto, onnx)
    check_declared(proto, onnx)
    d, graph = Draft(has_users_sizes=sizes != AS_IN_FILE), proto.graph
    d.known |= initialisers(graph, onnx) | dict(constants or {})
    names = [v.name for v in graph.output]
    nodes = with_idioms(_unknown(d, graph, opset, onnx), d.known, names)
    used = {name for node in nodes for name in node.inputs} | set(names)
    given = {v.name: v for v in graph.input if v.name not in d.known and (v.name in used or v.type.HasField("tensor_type"))}
    bound = bind({name: _dims(v) for name, v in given.items()}, sizes)
    try:
        inputs = {name: _input(d, v, bound.shapes[name], name in used, onnx) for name, v in given.items()}
        return _built(d, graph, nodes, inputs, bound, versions, opset, onnx)
    except Unimplemented as bad:
        if sizes != AS_IN_FILE:
            check_sizes(proto, {name: bound.shapes[name] for name in given}, onnx, bad)
        raise


def _built(
    d: Draft,
    graph: Any,
    nodes: Sequence[Node],
    inputs: Mapping[str, LogicalTensor],
    bound: Bound,
    versions: Mapping[str, int],
    opset: int,
    onnx: Any,
) -> Model:
    """nodes: those to be executed, in order. Raises Unmapped, with the node."""
    for node in nodes:
        for name in node.inputs:
            d.readers[name].append(node.kind)
    for v in graph.output:
        d.readers[v.name].append("")
    used, protos, layers = set(d.readers), {own.output[0]: own for own in graph.node}, layer_names(graph.node)
    for node in nodes:
        own = protos[node.outputs[0]]
        if _is_known(d, node):
            d.known |= results(node, own, opset, onnx, d.known)
            continue
        if node.kind == SHAPE:
            shape = d.named(node.inputs[0]).known_shape
            d.known[node.outputs[0]] = np.asarray(shape[node.get("start", 0) : node.get("end", None)], np.int64)
            continue
        d.begin(layers[node.outputs[0]])
        with within(node.label):
            for_each = node.kind in MADE_FOR_EACH and len(d.readers[node.outputs[0]]) > 1
            if why := d.attempt(ROWS[node.kind], node, for_each=for_each) if node.kind in ROWS else "no row expresses it":
                wildcard(d, node, own, versions.get(own.domain, opset), onnx, used, why)
    outputs = {v.name: _output(d, v.name, inputs, opset) for v in graph.output}
    made, ports = _finished(d, outputs), {name: t.id for name, t in outputs.items()}
    data = {t.id: d.data[t.id] for t in made.inputs if t.id in d.data}
    weights = {t.name: uses for t in graph.initializer if d.is_read(t.name) and (uses := _uses(d, d.named(t.name), data))}
    read = {t.id for t in made.inputs}
    return Model(
        made,
        data,
        {name: t.id for name, t in inputs.items()},
        ports,
        weights,
        batch=bound.batch,
        dims=bound.dims,
        fallen=tuple(d.fallen),
        unread={t.id: t for t in inputs.values() if t.id not in read},
    )


def _uses(d: Draft, weight: LogicalTensor, data: Collection[int]) -> tuple[Use, ...]:
    """Where the graph has a weight: as a whole, and parts of it."""
    parts = (Use(id, shape_of(weight), view) for id, (whole, view) in d.cut.items() if whole == weight.id and id in data)
    return (*((Use(weight.id),) if weight.id in data else ()), *parts)


def _opset(versions: Mapping[str, int], onnx: Any) -> int:
    """ONNX's own, of those by domain. Raises Unmapped for one that is too old or too new."""
    opset = next((versions[domain] for domain in DOMAINS if domain in versions), 0)
    newest = onnx.defs.onnx_opset_version()
    if not OLDEST <= opset <= newest:
        fix = f"convert it to opset {OLDEST} or newer" if opset < OLDEST else "install a newer onnx, or export it for an older opset"
        raise Unmapped(f"opset {opset}, where {OLDEST} to {newest} are read", fix=fix)
    return int(opset)


def _check_kinds(proto: Any, opset: int, onnx: Any) -> None:
    """Raise ParseError for an op that this opset of ONNX does not have."""
    for own in proto.graph.node:
        if own.domain in DOMAINS and not _has(own.op_type, opset, onnx) and not any(f.name == own.op_type for f in proto.functions):
            kinds = {s.name for s in onnx.defs.get_all_schemas_with_history() if s.domain in DOMAINS}
            newer = "export it for a newer opset" if own.op_type in kinds else ""
            fix = newer or did_you_mean(own.op_type, kinds) or "export the model without it, or name the domain that it is of"
            raise ParseError(f"opset {opset} has no op {quoted(own.op_type)}", where=_node(own, onnx).label, fix=fix)


def _has(kind: str, opset: int, onnx: Any) -> bool:
    try:
        return not onnx.defs.get_schema(kind, opset, "").deprecated
    except onnx.defs.SchemaError:
        return False


def _check(proto: Any, onnx: Any) -> None:
    """Raise ParseError for a model that breaks ONNX's rules: nodes out of order, inputs too few, attributes of a wrong type.

    What the installed onnx is too old for is Unimplemented.
    """
    if proto.ir_version > onnx.IR_VERSION:
        what = f"it is of version {proto.ir_version} of the form, where the installed onnx reads {onnx.IR_VERSION}"
        raise Unmapped(what, fix="install a newer onnx, or export it for an older opset")
    if not proto.graph.output:
        raise ParseError("the model has no outputs", fix="export it again")
    for v in proto.graph.input:
        for i, dim in enumerate(v.type.tensor_type.shape.dim):
            if dim.dim_value < 0:
                what = f"its dim {i} is {dim.dim_value}"
                raise ParseError(what, where=f"input {v.name!r}", fix="export it with a name for an open dim, as by dynamic_shapes")
    try:
        onnx.checker.check_model(proto)
    except Exception as bad:  # its errors have no class in common
        raise ParseError(f"no valid ONNX model: {one_line(bad)}", fix="export it again") from bad


def _unknown(d: Draft, graph: Any, opset: int, onnx: Any) -> list[Node]:
    """The nodes that are not computed yet: those that are known from the beginning are."""
    left = list[Node]()
    for own in graph.node:
        node = _node(own, onnx)
        if _is_known(d, node):
            d.known |= results(node, own, opset, onnx, d.known)
        else:
            left.append(node)
    return left


def _is_known(d: Draft, node: Node) -> bool:
    """Whether the node can be computed now. Weights in few bits are not made wide ones, and nothing is drawn."""
    if draws(d, node) or not all(name in d.known for name in node.inputs if name):
        return False
    return not is_compressed(node.kind, d.known[node.inputs[0]] if node.has(0) else None)


def _dims(value: Any) -> tuple[Dim, ...]:
    """The dims of an input. Raises Unmapped for one that has none."""
    with within(f"input {value.name!r}"):
        kind = value.type.tensor_type
        if not value.type.HasField("tensor_type") or not kind.HasField("shape"):
            raise Unmapped("it is no tensor of a known rank", fix="export the model with the shapes of its inputs")
        return tuple(dim.dim_value if dim.HasField("dim_value") else dim.dim_param for dim in kind.shape.dim)


def _input(d: Draft, value: Any, shape: Shape, is_used: bool, onnx: Any) -> LogicalTensor:
    """Raises Unmapped for an input of a type that the graph does not have; one that nothing reads may be of any."""
    with within(f"input {value.name!r}"):
        kind = value.type.tensor_type
        dtype = DATA_TYPES.get(kind.elem_type, None if is_used else DType.undef)
        if dtype is None:
            raise Unmapped(f"its data type is {type_name(kind.elem_type, onnx)}", fix="export it in f32")
        t = d.b.input(shape, dtype)
        d.define(value.name, t)
        return t


def _node(own: Any, onnx: Any) -> Node:
    attrs = {a.name: onnx.helper.get_attribute_value(a) for a in own.attribute}
    kind = own.op_type if own.domain in DOMAINS else f"{own.domain}.{own.op_type}"
    return Node(kind, tuple(own.input), tuple(own.output), attrs, own.name)


def _output(d: Draft, name: str, inputs: Mapping[str, LogicalTensor], opset: int) -> LogicalTensor:
    """The tensor of an output; one that is an input or a constant is copied, so that an op makes it. Raises Unmapped."""
    d.begin(name)
    label = f"output {name!r}"
    with within(label):
        t = d.named(name)
        if t.id not in d.data and all(t.id != i.id for i in inputs.values()):
            return t
        try:
            return d.op("Reorder", t)
        except Unmapped as lack:
            return copied(d, t, label, opset, lack.what)


def _finished(d: Draft, outputs: Mapping[str, LogicalTensor]) -> Graph:
    """The graph, with an End for outputs that ops read as well."""
    d.b.drop_unread([t.id for t in outputs.values()])
    graph = d.b.graph()
    ends = {t.id for t in outputs.values()} - {t.id for t in graph.outputs}
    for t in {t.id: t for t in outputs.values() if t.id in ends}.values():
        d.b.end(t)
    return d.b.graph()
