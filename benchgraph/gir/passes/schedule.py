"""schedule: every nest with a tunable op gets its template parameters, every op its anchor.

nest0 { MatMul rows, Add rows }   ->   nest0 mb=64 { MatMul kernel nb=64, Add tile }
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil, lcm, prod

from benchgraph.core.options import Forced
from benchgraph.core.target import Target
from benchgraph.core.tensor import Shape, dense_strides
from benchgraph.gir.anchors import choose_anchors
from benchgraph.gir.flash_attention import Online, online
from benchgraph.gir.ir import Anchor, Fused, Graph, Node, Op, Stage
from benchgraph.gir.on_the_fly_packing import panels_of
from benchgraph.gir.packed_blocks import are_fetched_ahead, piece_of
from benchgraph.gir.parameters import Parameters, Reason
from benchgraph.gir.product import Thin, acc_axes, group_of, product, thin
from benchgraph.gir.schedule import (
    F32_BYTES,
    MOST_ROWS_WORKED_ON,
    ROWS_FOR_A_PANEL,
    Parts,
    Rows,
    Step,
    columns_abreast,
    columns_at_a_time,
    columns_at_once,
    columns_held,
    columns_per_call,
    columns_reason,
    goes_by_panels,
    has_one_matrix,
    held_columns,
    parts_held,
    rows_per_task,
    wait_for_weights,
)
from benchgraph.gir.task_grid import cut_if_short, grid, grid_of_pieces
from benchgraph.ops import spec
from benchgraph.ops.spec import Call, Reduction, Window

GIVEN = "given from outside"
# Of the vector registers, which part holds the sums of windows beside each other. One Zen 4 core, depthwise convolutions, channels last,
# times of 8 over those of 4 with 32 registers: 112x112, 3x3 0.97, 56x56, 7x7 0.98, 28x28, 5x5 0.89, 14x14, 3x3 0.91, 5x5 0.81, gradients
# of weights of 5x5 and 7x7 0.76, 0.80; with 16 registers (AVX2) 1.10, 0.86, and 1.71 for 14x14, 3x3.
WINDOWS = 4
# Taps for each element that is read, below which windows whose data comes from memory go one by one: in groups they would read lines here
# and there. Two Zen 4 cores, times of groups over those without, channels last, 23 to 100 MB: maximum pooling, 3x3, stride 2 (2.3) 2.2,
# its gradient (3.2) 1.5, depthwise convolutions of 3x3, stride 2 (2.3) 1.4; 3x3 (9) 0.85 to 1.1, in bf16 0.72, 5x5 (25) 0.47, gradients of
# average pooling (16) 0.7; gradients of weights (4.5) need them in any case.
FAR_TAPS = 4


def schedule(g: Graph, target: Target) -> Graph:
    nodes = tuple(_scheduled(g, n, target) if isinstance(n, Fused) else n for n in g.nodes)
    return g if nodes == g.nodes else replace(g, nodes=nodes)


def _together(g: Graph, op: Op, target: Target) -> int:
    """How many windows may be folded beside each other."""
    ins, out, how = tuple(g.value(v).type for v in op.ins), g.value(op.outs[0]).type, spec(op.kind).lowering.form
    assert isinstance(how, Window)
    taps = prod(how.taps(Call(op.kind, op.attrs, ins, (out,)))) * out.elements
    is_far = any(target.is_far(t.nbytes) for t in (*ins, out))
    return 1 if is_far and taps < FAR_TAPS * sum(t.elements for t in ins) else target.isa.registers // WINDOWS


def _scheduled(g: Graph, node: Fused, target: Target) -> Node:
    kernels = [stage for stage in node.stages if spec(stage.ops[0].kind).lowering.is_contraction and not stage.sums_rows]
    sums = any(stage.sums_rows for stage in node.stages)
    if spec(node.ops[0].kind).lowering.is_window:
        return replace(node, together=_together(g, node.ops[0], target))
    if not kernels:
        return node
    rows = g.value(kernels[0].ops[0].outs[0]).shape[:-1]
    works_on_rows = any(isinstance(spec(op.kind).lowering.form, Reduction) for op in node.ops)
    alone = product(g, kernels[0].ops[0]) if len(kernels) == 1 and not sums else None
    forced = None if alone is None else alone.forced
    in_pieces = online(g, node)
    step = None if in_pieces is None else _step(g, in_pieces, rows, target)
    columns = columns_at_once(g, [stage.ops[0] for stage in kernels]) if step is None else step.held
    found = rows_per_task(
        prod(rows[:-1]),
        rows[-1],
        columns,
        target,
        works_on_rows=works_on_rows and not sums,
        waits=wait_for_weights(g, [stage.ops[0] for stage in kernels], target),
    )
    if alone is not None and not works_on_rows:
        found = cut_if_short(alone, found)
    chosen = _whole_groups(g, node, found, rows[-1]) if forced is None else Rows(forced.mb, GIVEN)
    stages = [_with_anchors(g, node, stage, chosen, target) for stage in node.stages]
    if in_pieces is not None and step is not None:
        stages = [_in_pieces(s, in_pieces, step) if s.ops == in_pieces.scores.ops else s for s in stages]
    if _is_on_grid(stages):
        stages = [*stages[:-1], _on_grid(g, replace(node, stages=tuple(stages)), forced, target)]
    scheduled = replace(node, stages=tuple(stages))
    return scheduled if step is not None else _prefetching(g, scheduled, kernels, rows, columns, target)


def _whole_groups(g: Graph, node: Fused, found: Rows, m: int) -> Rows:
    """As many rows at least, of which products that sum over them take whole groups."""
    group = lcm(*(group_of(g, stage.ops[0]) for stage in node.stages if stage.sums_rows))
    mb = min(ceil(found.mb / group) * group, m)
    return found if mb == found.mb else Rows(mb, f"{found.why}; in whole groups of {group}, which sums over rows take at a time")


def _step(g: Graph, o: Online, rows: Shape, target: Target) -> Step | None:
    """How many columns of scores to hold at a time, None for whole rows."""
    scores, values = (product(g, stage.ops[0]) for stage in (o.scores, o.values))
    heads = scores.reduced[-1] + values.columns
    rows_at_a_time, keys = min(rows[-1], MOST_ROWS_WORKED_ON), values.reduced[-1]
    some_hidden = o.choice is not None and 2 * rows[-1] >= keys
    return columns_at_a_time(rows_at_a_time, keys, heads, columns_per_call(g, o.scores.ops[0], target), target, some_hidden=some_hidden)


def _in_pieces(stage: Stage, o: Online, step: Step) -> Stage:
    """The stage of the scores with its step; what works on them early does so on tiles."""
    p = stage.parameters
    assert p is not None
    anchors = (Anchor.kernel, *(Anchor.tile if op in o.early else Anchor.rows for op in stage.ops[1:]))
    return replace(stage, anchors=anchors, parameters=replace(p, step=step.columns, why=(*p.why, Reason("step", step.why))))


def _on_grid(g: Graph, node: Fused, forced: Forced | None, target: Target) -> Stage:
    """A lone product, the last stage, whose post-ops all run on its tiles: its columns may be spread over tasks too."""
    stage = node.stages[-1]
    own = stage.parameters
    assert own is not None
    p = product(g, stage.ops[0])
    is_held = (held_columns(p, target) == own.nb) if forced is None else (forced.split_n and goes_by_panels(p, own.nb, target))
    if is_held and not panels_of(node, stage):
        return _past_panels(stage, own, columns_held(p, own.nb, target))
    if forced is not None:
        return _split(stage, forced.split_n, GIVEN)
    if (parts := _parts(g, stage.ops[0], own, target)) is not None:
        return _held_in(parts, stage, own)
    is_one = has_one_matrix(g, stage.ops[0]) or own.batch == 1
    found, gain = grid(p, own.nb, own.mb, target) if is_one and not p.batch else None, "a core fetches least"
    if own.ks:
        makes_rows = any(not s.is_per_panel for s in node.stages[:-1])
        found = grid_of_pieces(own.m, own.n, own.ns, target, makes_rows=makes_rows)
        gain = "the core that has most to do has least"
    if found is not None:
        one_of = "one piece" if own.ks else "one panel"
        tasks = f"tasks of {found.mb} rows and {one_of if found.split_n else 'all columns'}"
        on_grid = _with_anchors(g, node, stage, Rows(found.mb, f"with {tasks} {gain}"), target)
        if _is_tiled(on_grid):
            return _split(on_grid, found.split_n, "each core then reads its own part of the weights alone")
    return _split(stage, own.tasks < own.cores, "there are fewer blocks of rows than cores")


def _past_panels(stage: Stage, own: Parameters, ns: int) -> Stage:
    """The stage with tasks of so many columns. Weights that rows of one entry would read in pieces are then read down to the last row."""
    whole = replace(own, ks=0, ahead=False, why=_reasons_without(own, "ks", "ahead")) if own.ks else own
    why = (*whole.why, Reason("panels_first", "all entries go past panels of weights while L2 holds them"))
    return replace(stage, parameters=replace(whole, split_n=True, panels_first=True, ns=ns, why=why))


def _reasons_without(own: Parameters, *gone: str) -> tuple[Reason, ...]:
    """The reasons, but for those of parameters that are not chosen so after all."""
    return tuple(r for r in own.why if r.parameter not in gone)


def _parts(g: Graph, op: Op, own: Parameters, target: Target) -> Parts | None:
    """Where weights are to be held in parts, and sums can wait where the microkernel leaves them."""
    return None if acc_axes(g, op) is None else parts_held(product(g, op), own.nb, target)


def _held_in(parts: Parts, stage: Stage, own: Parameters) -> Stage:
    """The stage with such parts. Nothing is fetched ahead: the next panel is far away then."""
    of = "all entries go" if parts.groups == 1 else f"each of {parts.groups} groups of entries goes"
    why = Reason("parts", f"{of} past one part of a panel of weights after the other, which L2 holds meanwhile")
    cut = replace(own, kb=own.kb // parts.count, split_n=True, panels_first=True, parts=parts.count, groups=parts.groups)
    return replace(stage, parameters=replace(cut, ahead=False, why=(*_reasons_without(own, "ahead"), why)))


def _is_on_grid(stages: list[Stage]) -> bool:
    """Whether nothing but a product needs rows that are whole. What makes its src is done before, where wei comes in pieces."""
    *before, last = stages
    own = last.parameters
    if own is None or own.ks == 0:
        return not before and _is_tiled(last)
    return _is_tiled(last) and all(s.is_per_panel or _is_pointwise(s) for s in before)


def _is_pointwise(stage: Stage) -> bool:
    return not stage.is_per_entry and all(spec(op.kind).lowering.is_elementwise for op in stage.ops)


def _is_tiled(stage: Stage) -> bool:
    return all(a in (Anchor.kernel, Anchor.tile) for a in stage.anchors)


def _split(stage: Stage, is_split: bool, why: str) -> Stage:
    p = stage.parameters
    assert p is not None
    return replace(stage, parameters=replace(p, split_n=True, why=(*p.why, Reason("split_n", why)))) if is_split else stage


def _prefetching(g: Graph, node: Fused, kernels: list[Stage], rows: Shape, columns: int, target: Target) -> Fused:
    """The node with the operands worth fetching ahead: dense per batch entry, the next entry right behind.

    The microkernel's calls of one task fetch the next task's rows, and those of one entry what the next one reads whole, a line now and
    then, if two entries of that and a task's rows, so many f32 columns, fit into L2. While all was fetched row by row in softmax's work,
    MHA_1 of the Graph Compiler paper waited for memory a tenth of its time: two Cascade Lake cores, times of now over those of then,
    medians (minima) of 11: MHA_1 0.85 (0.73), MHA_2 0.89 (0.86), int8 0.93 (0.93), 0.95 (0.95). Lone products of attention: 0.92 (0.91).
    What post-ops read row by row, masks of their own for every entry, is fetched so where L2 does not keep it. One Zen 4 core, attention
    of 16 heads by 384x384 scores and a mask of as many, f32 (bf16) 0.85 (0.93), its backward graph in bf16 0.91; of less memory 1.04.
    """
    if len(rows) < 2 or prod(rows[:-1]) < 2 * target.cores:
        return node
    per_entry = (op for stage in node.stages if stage.is_per_entry for op in stage.ops)
    whole = {g.root(v) for op in per_entry for v in op.ins} | {g.root(v) for stage in kernels for v in stage.ops[0].ins[1:]}
    by_row = {stage.ops[0].ins[0] for stage in kernels}
    beside = {v for stage in node.stages if not (stage.is_per_entry or stage.sums_rows) for op in stage.ops for v in op.ins}
    by_row |= {v for v in beside if g.value(v).type.nbytes > target.l2_bytes}
    dense = [v for v in map(g.value, g.ins) if not v.is_constant and v.shape[:-2] == rows[:-1] and v.strides == dense_strides(v.shape)]
    entry = [v for v in dense if v.id in whole]
    task_bytes = F32_BYTES * columns * node.mb
    fits = 2 * sum(v.type.nbytes for v in entry) // prod(rows[:-1]) + task_bytes <= target.l2_bytes
    next_rows = (v.id for v in dense if v.id in by_row - whole and v.shape[:-1] == rows)
    return replace(node, next_entry=tuple(v.id for v in entry) if fits else (), next_rows=tuple(next_rows))


def _streams_panels(g: Graph, node: Fused, stage: Stage, mb: int, nb: int, target: Target) -> bool:
    """Whether panels of packed weights come from beyond L2, one after the other, and rows enough are multiplied by each to fetch the next
    meanwhile. Not by init, which has just packed them."""
    wei = {op.ins[1]: g.value(op.ins[1]) for op in node.ops if spec(op.kind).lowering.is_contraction}
    own = wei[stage.ops[0].ins[1]]
    is_packed = own.is_constant and bool(own.layout.blocks) and not g.value(stage.ops[0].outs[0]).is_constant
    streamed = is_packed and own.shape[-1] > nb
    nbytes = sum(v.type.nbytes for v in wei.values())
    return streamed and mb >= ROWS_FOR_A_PANEL[target.is_far(nbytes)] and nbytes > target.l2_bytes


def _with_anchors(g: Graph, node: Fused, stage: Stage, rows: Rows, target: Target) -> Stage:
    if not spec(stage.ops[0].kind).lowering.is_contraction:
        return stage
    p, src, nb = product(g, stage.ops[0]), g.value(stage.ops[0].ins[0]), columns_per_call(g, stage.ops[0], target)
    *batch, m, n = p.call.outs[0].shape
    if stage.sums_rows:
        rows = Rows(m, "every task adds to all rows")
    k = p.reduced[-1]
    kb = src.layout.blocks[0][1] if src.layout.blocks else k
    why: tuple[Reason, ...] = (
        Reason("mb", rows.why),
        Reason("nb", GIVEN if p.forced is not None else columns_reason(p, nb, target)),
        Reason("kb", "src is row-major" if kb == k else "src stands in the column blocks that the product before has left"),
    )
    at = choose_anchors(g, stage.ops, rows.mb, nb, target)
    why += (Reason("anchor", at.why),) if at.why else ()
    makers = panels_of(node, stage)
    are_fetched = are_fetched_ahead(g, stage.ops[0], makers, target)
    ks, ns = piece_of(g, stage.ops[0], makers, rows.mb, nb, kb, target, are_fetched=are_fetched)
    fetched = f"pieces of {ks} x {ns} stay in cache until they are read" if makers else f"{ks} rows side by side are fetched ahead best"
    why += (Reason("ks", fetched),) if ks else ()
    ahead = are_fetched if ks else _streams_panels(g, node, stage, rows.mb, nb, target)
    next_one, time = ("what the next piece is packed from", "") if ks else ("the next panel", f" and {rows.mb} rows leave the time for it")
    why += (Reason("ahead", f"{next_one}, since L2 does not keep all weights{time}"),) if ahead else ()
    abreast = columns_abreast(m, p.call.ins[1].dtype.nbytes(k), target) if n > 1 and thin(g, stage.ops[0]) is Thin.folded else 0
    why += (Reason("abreast", f"weights lie by columns, {abreast} of which meet {m} rows at a time"),) if abreast else ()
    chosen = Parameters(
        prod(batch), m, n, prod(p.reduced), rows.mb, nb, kb, target.cores, ks=ks, ns=ns, ahead=ahead, abreast=abreast, why=why
    )
    return replace(stage, anchors=at.anchors, parameters=chosen)
