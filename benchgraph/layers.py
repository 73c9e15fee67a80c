"""The layers of a compiled partition: which ops each statement of main computes, so that the clock read between them tells their times.

A statement is a loop nest, with all ops that are fused into it, or several nests that passes made one. Every op of the partition is in
exactly one layer: where its result is made; or where that is read, if it has no code of its own, as views, and what init computes once.
Statements that only prepare an op are part of its layer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from benchgraph.compile import check_compilable, compile_profiled
from benchgraph.core.layers import Layer
from benchgraph.core.record import Record, recorded
from benchgraph.gir.ir import Graph
from benchgraph.gir.origins import origins
from benchgraph.lower.storage import stored_value
from benchgraph.machine.target import Target, current
from benchgraph.partition.ir import Partition
from benchgraph.runtime.profiled import ProfiledExecutable
from benchgraph.schedule.tuning import tuned
from benchgraph.tir.ir import Stmt
from benchgraph.tir.visit import tensor_names, written


@dataclass(frozen=True)
class LayeredExecutable:
    """ops: of each layer, positions in the partition's ops, in order. layer_of: statement of main -> layer. nests: of each layer, how many
    nests or stages of nests passes made one statement, whose times cannot be told apart."""

    executable: ProfiledExecutable
    ops: tuple[tuple[int, ...], ...]
    layer_of: tuple[int, ...]
    nests: tuple[int, ...]

    def layers(self, partition: Partition, position: int = 0) -> tuple[Layer, ...]:
        """With ids of the partition's ops. position: its own, in the order of execution."""
        name = self.executable.implementations[0].name
        return tuple(
            Layer(tuple(partition.ops[op].id for op in ops), position, implementation=name, nests=nests)
            for ops, nests in zip(self.ops, self.nests, strict=True)
        )


def compile_layers(partition: Partition, target: Target | None = None) -> LayeredExecutable:
    """Compile a partition as compile_partition does, into code that tells the times of its layers. Raises the errors of
    compile_partition."""
    check_compilable(partition)
    target = target or current()
    partition = replace(partition, options=tuned(partition.options, target))
    with recorded() as record:
        executable = compile_profiled(partition, target)
    return LayeredExecutable(executable, *find_layers(partition, record, executable.statements))


def find_layers(
    partition: Partition, record: Record, statements: Sequence[Stmt]
) -> tuple[tuple[tuple[int, ...], ...], tuple[int, ...], tuple[int, ...]]:
    """`ops`, `layer_of` and `nests` of a LayeredExecutable. record: of its compilation; statements: of main, after all passes."""
    graphs = [s.ir for s in record.steps if isinstance(s.ir, Graph)]
    code = _Code(graphs[-1], statements, origins(graphs))
    group_of_nest = code.groups()
    nest_of = _placed(partition, graphs[0], code)
    ops = dict[int, list[int]]()
    for op in range(len(partition.ops)):
        ops.setdefault(group_of_nest[nest_of[op]], []).append(op)
    groups = [group_of_nest[nests[0]] for nests in code.nests_of]
    for at, group in enumerate(groups):
        if group not in ops:  # it prepares an op whose result another statement makes
            groups[at] = next((g for op in code.prepared(at) if (g := group_of_nest[nest_of[op]]) in ops), group_of_nest[nest_of[0]])
    order = {group: layer for layer, group in enumerate(dict.fromkeys(groups))}
    layer_of = tuple(order[group] for group in groups)
    nests = tuple(sum(len(code.nests[n].stages) for n, own in enumerate(group_of_nest) if own == group) for group in order)
    return tuple(tuple(ops[group]) for group in order), layer_of, nests


class _Code:
    """The nests of main, by their number, and its statements. nests_of: of each statement, one at least."""

    def __init__(self, g: Graph, statements: Sequence[Stmt], comes_from: dict[int, int]) -> None:
        self.g, self.comes_from = g, comes_from
        self.nests = [nest for nest in g.nests if not g.is_init(nest)]
        self.maker = {v: number for number, nest in enumerate(self.nests) for v in nest.outs}
        self.nests_of = self._nests_of(statements)

    def _nests_of(self, statements: Sequence[Stmt]) -> list[list[int]]:
        """By the values that a statement stores; those of the first reader for one that stores no value, but only scratch memory."""
        stored = [{t.name: stored_value(t) for t in written(s)} for s in statements]
        found = [sorted({self.maker[v] for v in names.values() if v in self.maker}) for names in stored]
        for at in reversed(range(len(found))):
            if not found[at]:
                later = range(at + 1, len(found))
                reader = next((n for n in later if found[n] and not stored[at].keys().isdisjoint(tensor_names(statements[n]))), None)
                found[at] = found[reader] if reader is not None else next((found[n] for n in later if found[n]), [len(self.nests) - 1])
        return found

    def groups(self) -> list[int]:
        """For every nest a number, the same for nests of one statement; that of its first reader for a nest that no statement stores."""
        group = list(range(len(self.nests)))

        def root(nest: int) -> int:
            while group[nest] != nest:
                nest = group[nest]
            return nest

        for nests in self.nests_of:
            for nest in nests:
                group[root(nest)] = root(nests[0])
        stored = {nest for nests in self.nests_of for nest in nests}
        for nest in reversed(range(len(self.nests))):
            if nest not in stored:
                readers = (n for n in range(nest + 1, len(self.nests)) if not set(self.nests[nest].outs).isdisjoint(self.nests[n].ins))
                group[nest] = next(readers, max(stored))
        return [root(nest) for nest in range(len(self.nests))]

    def prepared(self, statement: int) -> Iterator[int]:
        """The ops that a statement computes parts of, the last one first."""
        for nest in reversed(self.nests_of[statement]):
            yield from reversed(list(self.parts_of(nest)))

    def parts_of(self, nest: int) -> Iterable[int]:
        """The ops that a nest computes, or parts of them."""
        made = (self.comes_from.get(v) for op in self.nests[nest].ops for v in op.outs)
        return (op for op in made if op is not None)


def _placed(partition: Partition, first: Graph, code: _Code) -> list[int]:
    """The nest of each op of the partition: the one that makes its result, else the last one that computes a part of it; else that of its
    first reader, else of its last operand."""
    makes = {v: number for number, nest in enumerate(code.nests) for op in nest.ops for v in op.outs}
    last = {op: number for number in range(len(code.nests)) for op in code.parts_of(number)}
    found = dict[int, int]()
    for op, node in enumerate(first.ops):
        nest = next((makes[v] for v in node.outs if v in makes and code.comes_from.get(v) == op), last.get(op))
        if nest is not None:
            found[op] = nest
    by_output = {t.id: op for op, o in enumerate(partition.ops) for t in o.outputs}
    read_by = dict[int, int]()  # op -> nest of its first reader
    for op in reversed(range(len(partition.ops))):
        if op not in found and op in read_by:
            found[op] = read_by[op]
        for t in partition.ops[op].inputs:
            if t.id in by_output and op in found:
                read_by[by_output[t.id]] = found[op]
    for op, o in enumerate(partition.ops):
        if op not in found:
            found[op] = next((found[by_output[t.id]] for t in reversed(o.inputs) if by_output.get(t.id) in found), len(code.nests) - 1)
    return [found[op] for op in range(len(partition.ops))]
