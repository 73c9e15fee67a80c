"""A program of torch.export as a model: its graph, with all views as layout ops, and the data of its parameters and buffers.

Open dims get numbers first, and what depends on them becomes constant. In-place ops become values, composite ops the ATen ops that the
rows know, as under torch.compile. Ops are named by the modules that they come from: `layer1.0.conv1` is what that convolution does, and
`layer1.0.add` an addition in the module `layer1.0` itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch import fx
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind
from torch.fx.experimental.proxy_tensor import make_fx

from benchgraph.core.errors import BenchgraphError, InvalidArguments, Unimplemented
from benchgraph.core.tensor import Shape
from benchgraph.graph import Graph, validate
from benchgraph.graph.model import Model
from benchgraph.graph.override import BadOverride
from benchgraph.torch.decompositions import DECOMPOSITIONS
from benchgraph.torch.export_draft import EXPORT, ExportDraft, Weight

WEIGHTS = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)


def inputs_of(program: ExportedProgram) -> dict[str, Any]:
    """The program's tensor inputs by name: what torch says of each, with symbols where a dim is open."""
    vals = {n.name: n.meta.get("val") for n in program.graph.find_nodes(op="placeholder")}
    names = (spec.arg.name for spec in program.graph_signature.input_specs if spec.kind is InputKind.USER_INPUT)
    return {name: vals[name] for name in names if isinstance(vals.get(name), torch.Tensor)}


def dims_of(val: torch.Tensor) -> tuple[int | str, ...]:
    """The dims of an input: numbers, and expressions of symbols for open ones."""
    return tuple(d if isinstance(d, int) else str(d) for d in val.shape)


def example_of(val: torch.Tensor) -> Shape:
    """The shape with which the program was exported; 0 where it does not say."""
    return tuple(d if isinstance(d, int) else int(d.node.hint or 0) for d in val.shape)


def model_of(program: ExportedProgram, shapes: Mapping[str, Shape] | None = None) -> Model:
    """The model. shapes: of inputs, by name; others have those with which the program was exported.

    Raises BenchgraphError for what cannot be expressed, and for shapes that the program does not allow.
    """
    inputs = inputs_of(program)
    chosen = {name: (shapes or {}).get(name, example_of(val)) for name, val in inputs.items()}
    _check_shapes(program, inputs, chosen)
    weights = _weights(program)
    is_open = any(isinstance(d, str) for val in inputs.values() for d in dims_of(val))
    module, signature = _functional(program)
    if is_open:
        module = _specialised(module, signature, chosen, inputs)
    draft = ExportDraft(module, [weights.get(spec.target or "") if spec.kind in WEIGHTS else None for spec in signature.input_specs])
    graph = validate(Graph(tuple(draft.ops)))
    used = {t.id for t in graph.inputs}
    given = {
        spec.arg.name: t
        for spec, node in zip(signature.input_specs, draft.inputs, strict=True)
        if spec.kind is InputKind.USER_INPUT and (t := draft.value[node][0]) is not None
    }
    results = zip(_output_names(program, signature), draft.results, strict=True)
    return Model(
        graph,
        {id: array for id, array in draft.data.items() if id in used},
        {name: t.id for name, t in given.items()},
        {name: t.id for name, t in results if t is not None},
        {name: tuple(use for use in uses if use.tensor in used) for name, uses in draft.uses.items()},
        fallen=tuple(draft.fallen),
        unread={t.id: t for t in given.values() if t.id not in used},
    )


def _check_shapes(program: ExportedProgram, inputs: Mapping[str, Any], chosen: Mapping[str, Shape]) -> None:
    """Raise unless fixed dims are as exported, and open ones within the range that the program allows."""
    for name, val in inputs.items():
        for position, (dim, size) in enumerate(zip(val.shape, chosen[name], strict=True)):
            where = f"input '{name}', dim {position}"
            if isinstance(dim, int):
                if dim != size:
                    what = f"it is fixed at {dim}, and {size} is asked for"
                    raise BadOverride(what, where=where, fix="export the model with dynamic_shapes for it")
                continue
            allowed = program.range_constraints.get(dim.node.expr)
            if size < 1 or (allowed is not None and not allowed.lower <= size <= allowed.upper):
                span = "of at least 1" if allowed is None else f"from {max(1, allowed.lower)} to {allowed.upper}"
                raise InvalidArguments(f"{dim} is {size}", where=where, fix=f"give it a number {span}")


def _weights(program: ExportedProgram) -> dict[str, Weight]:
    """Parameters, buffers and constants by name. Raises Unimplemented for inputs that are neither these nor the user's."""
    found = dict[str, Weight]()
    for spec in program.graph_signature.input_specs:
        if spec.kind in WEIGHTS:
            name = spec.target or ""
            tensor = program.state_dict[name] if name in program.state_dict else program.constants[name]
            found[name] = Weight(name, tensor, is_known=spec.kind is not InputKind.PARAMETER)
        elif spec.kind is not InputKind.USER_INPUT:
            raise Unimplemented(f"it needs a {spec.kind.name.lower().replace('_', ' ')}", where=f"input '{spec.arg.name}'", fix=EXPORT)
    return found


def _functional(program: ExportedProgram) -> tuple[fx.GraphModule, Any]:
    """The program's graph without in-place ops, decomposed as AOT autograd does; and its signature."""
    from torch._export.utils import _collect_all_valid_cia_ops, _get_decomp_for_cia

    composite = {op: _get_decomp_for_cia(op) for op in _collect_all_valid_cia_ops()}
    with torch.no_grad():
        made = program.run_decompositions({**composite, **DECOMPOSITIONS})
    return made.graph_module, made.graph_signature


def _specialised(module: fx.GraphModule, signature: Any, chosen: Mapping[str, Shape], inputs: Mapping[str, Any]) -> fx.GraphModule:
    """The graph for inputs of these shapes, with all other sizes as numbers."""
    mode = torch._subclasses.FakeTensorMode()
    args = list[Any]()
    with mode:
        for node, spec in zip(module.graph.find_nodes(op="placeholder"), signature.input_specs, strict=True):
            val = node.meta.get("val")
            if not isinstance(val, torch.Tensor):
                args.append(val)
            elif spec.kind is InputKind.USER_INPUT and spec.arg.name in chosen:
                args.append(torch.empty(chosen[spec.arg.name], dtype=val.dtype))
            else:
                args.append(torch.empty_strided(tuple(val.shape), tuple(val.stride()), dtype=val.dtype))
    try:
        with torch.no_grad(), fx.traceback.preserve_node_meta(), mode:
            return make_fx(fx.Interpreter(module).run, tracing_mode="real")(*args)
    except BenchgraphError:
        raise
    except Exception as bad:  # shapes that do not fit raise whatever op meets them first
        what = f"the program does not take these sizes: {next(iter(str(bad).splitlines()), type(bad).__name__)}"
        raise BadOverride(what, where="--in-shapes", fix="give the sizes that it was exported for") from bad


def _output_names(program: ExportedProgram, signature: Any) -> list[str]:
    """A name for each result: its place in what the model returns, or the buffer whose new value it is."""
    spec = program.call_spec.out_spec
    leaves = pytree.tree_flatten_with_path(spec.unflatten(range(spec.num_leaves)))[0] if spec is not None else []
    places = iter([_place(path) for path, _ in leaves])
    names = list[str]()
    for output in signature.output_specs:
        is_users = output.kind is OutputKind.USER_OUTPUT
        name = next(places, "") if is_users else str(output.target or output.arg.name)
        names.append(name or ("output" if is_users else output.arg.name))
    return names


def _place(path: Sequence[Any]) -> str:
    """A path into nested results: logits, past.0."""
    return ".".join(str(getattr(key, "key", getattr(key, "idx", getattr(key, "name", key)))) for key in path)
