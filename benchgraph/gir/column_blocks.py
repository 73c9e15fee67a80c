"""Columns of a microkernel call, which are those of a packed B panel."""

from __future__ import annotations

from functools import lru_cache
from math import ceil

from benchgraph.core.formats import counted
from benchgraph.core.memoise import memoised_within
from benchgraph.gir.gemm_nest import gemm_nest
from benchgraph.gir.ir import Graph, Op
from benchgraph.gir.layouts import panel_columns
from benchgraph.gir.product import Product, product
from benchgraph.machine.target import Target
from benchgraph.schedule.choose import cheaper, choose
from benchgraph.schedule.space import Tiling
from benchgraph.schedule.steps import Nest, alone

_TILE_CALLS, _VECTOR_CALLS = (4, 2), (0.5, 0.25)  # other register panels of a call; tile registers keep rows of src in L1 for several
_APART = 0.05  # share of a cost that another width must save: estimates differ by less for no reason


@memoised_within
def column_block(p: Product, target: Target) -> int:
    """Columns of one microkernel call, and of one packed B panel. Where a convolution has groups it divides the columns of one."""
    return min(costs := _costs(p, target), key=lambda nb: costs[nb])


@memoised_within
def _costs(p: Product, target: Target) -> dict[int, float]:
    """`_costs_in` of a product that is alone in its nest. For weights that change `schedule` chooses, which knows their nest."""
    widths = call_widths(p, target)
    if len(widths) == 1 or not p.has_constant_wei:
        return {widths[0]: 0.0}
    return _costs_in(alone(gemm_nest(p, target)), widths, target, may_spread=True)


def columns_in(nest: Nest, widths: tuple[int, ...], target: Target, *, may_spread: bool) -> int:
    """Columns of a call of the only product of a nest: the first of these, or others that cost clearly less with as many rows of a task."""
    rows = Tiling.of(choose(nest, widths[:1], target, may_spread=may_spread).schedule).mb
    costs = _costs_in(nest, widths, target, may_spread=may_spread, rows=(rows,))
    return min(costs, key=lambda nb: costs[nb])


@lru_cache(maxsize=4096)
def _costs_in(nest: Nest, widths: tuple[int, ...], target: Target, *, may_spread: bool, rows: tuple[int, ...] = ()) -> dict[int, float]:
    """By columns of a call of the only product, the cost of the best schedule with these: of the first, and of others that cost clearly
    less. Passes ask again after they have made another graph of equal products, and networks have layers of such."""
    usual, *others = widths
    costs = {usual: choose(nest, (usual,), target, may_spread=may_spread).cost.total}
    for nb in others:
        least = min((1 - _APART) * costs[usual], *costs.values())
        if (ns := cheaper(nest, nb, target, than=least, may_spread=may_spread, rows=rows)) is not None:
            costs[nb] = ns
    return costs


def takes_less_time(p: Product, other: Product, target: Target) -> bool:
    """Whether a product, alone in its nest, clearly takes less time than another one."""
    nests = ((alone(gemm_nest(each, target)), column_block(each, target)) for each in (p, other))
    ns, others = (choose(nest, (nb,), target, may_spread=True).cost.total for nest, nb in nests)
    return ns < (1 - _APART) * others


def call_widths(p: Product, target: Target) -> tuple[int, ...]:
    """Columns that a call can have, those of a register panel first."""
    calls = _TILE_CALLS if target.in_tiles(p.call.ins[0].dtype) else _VECTOR_CALLS
    most = (max(int(panels * target.panel_width), target.lanes) for panels in (1, *calls))
    widths = dict.fromkeys(panel_columns(p.columns, target, each) for each in most)
    if p.columns == p.call.outs[0].shape[-1]:
        return tuple(widths)
    whole_vectors = (d for d in range(max(widths), 0, -target.lanes) if p.columns % d == 0 and d % target.lanes == 0)
    return tuple(w for w in widths if p.columns % w == 0) or (next(whole_vectors, p.columns),)


def columns_reason(p: Product, nb: int, target: Target) -> str:
    """The reason of `column_block`, in words."""
    vectors = counted(ceil(nb / target.lanes), "vector")
    if nb == p.columns:
        return f"all {nb} columns, in {vectors}"
    costs = _costs(p, target)
    if nb not in costs:
        less = f"{_APART:.0%} less time in this nest than {next(iter(costs))} columns"
        return f"{vectors} of {target.lanes}: {'the weights are packed in panels of this width' if p.has_constant_wei else less}"
    each = ", ".join(f"{width} columns {ns / 1000:.3g} us" for width, ns in costs.items() if ns)
    why = f"alone in a nest with {each}" if each else "the widest register tile, and panels as equal as whole vectors allow"
    if len(costs) == 1 and each:
        why += f", other widths not {_APART:.0%} less"
    return f"{vectors} of {target.lanes}: {why}"


def columns_per_call(g: Graph, op: Op, target: Target) -> int:
    """Columns of one microkernel call of a product in a graph whose layouts are propagated."""
    wei = g.value(op.ins[1])
    return wei.layout.blocks[0][1] if wei.layout.blocks else column_block(product(g, op), target)
