"""What the compiler did with a partition and why, as data from the record of its passes: products with their parameters, nests with
anchors, buffers before and after each pass, constants, in-place pairs."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from benchgraph.compile import check_compilable, compile_anew
from benchgraph.core.record import Note, Record, Step, recorded
from benchgraph.gir.ir import FusedOp, Graph, Op, Stage
from benchgraph.gir.parameters import Parameters, Reason
from benchgraph.gir.product import product
from benchgraph.machine.target import Target, current
from benchgraph.partition.ir import Partition
from benchgraph.schedule.tuning import tuned
from benchgraph.tir.ir import Func
from benchgraph.tir.passes.plan_buffers import bytes_without_reuse, temporaries, temporary_bytes


@dataclass(frozen=True)
class PlacedOp:
    """An op of a nest. makes: its result, as in Graph IR text. anchor: where in the nest it runs. begins: why it began the nest."""

    kind: str
    makes: str
    anchor: str
    begins: str = ""


@dataclass(frozen=True)
class ProductParameters:
    """The parameters of one product (gir/parameters.py). derived: those that follow from the others, by the paper's names."""

    problem: str
    parameters: dict[str, int | bool]
    derived: dict[str, int]
    reasons: tuple[Reason, ...]


@dataclass(frozen=True)
class StageReport:
    """The ops of one stage of a nest, and the parameters of the product they begin with."""

    ops: tuple[PlacedOp, ...]
    chosen: ProductParameters | None = None


@dataclass(frozen=True)
class Nest:
    """One parallel loop nest. when: init (once) or main (at every execution). apart: pairs of a reader of its results and why the two are
    not one. schedules: that of a nest without a product, with what it and the next one cost. is_serial: of a nest of products whose tasks
    one thread runs."""

    name: str
    when: str
    sections: tuple[StageReport, ...]
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    next_entry: tuple[str, ...]
    next_rows: tuple[str, ...]
    apart: tuple[tuple[str, str], ...]
    schedules: tuple[str, ...] = ()
    is_serial: bool = False


@dataclass(frozen=True)
class PassStep:
    """One pass. shared_bytes, thread_bytes: temporaries of main after it, shared and of each thread; None for passes on Graph IR."""

    name: str
    seconds: float
    is_changed: bool
    is_off: bool
    shared_bytes: int | None = None
    thread_bytes: int | None = None


@dataclass(frozen=True)
class Buffer:
    """A temporary of main. full_bytes: at its logical shape, 0 for one that a pass has added. nbytes: at its final shape. offset: in its
    arena."""

    name: str
    scope: str
    full_bytes: int
    nbytes: int
    offset: int


@dataclass(frozen=True)
class Arenas:
    """Bytes of a function's arenas; without_reuse: if no two buffers shared bytes. peak: of one execution, over all threads."""

    function: str
    shared_bytes: int
    thread_bytes: int
    shared_bytes_without_reuse: int
    thread_bytes_without_reuse: int
    threads: int

    @property
    def peak_bytes(self) -> int:
        return self.shared_bytes + self.threads * self.thread_bytes

    @property
    def peak_bytes_without_reuse(self) -> int:
        return self.shared_bytes_without_reuse + self.threads * self.thread_bytes_without_reuse


@dataclass(frozen=True)
class ConstantBuffer:
    """A buffer of the executable that outlives executions. maker: init, or the compiler, for compile-time data."""

    name: str
    nbytes: int
    maker: str


@dataclass(frozen=True)
class Explanation:
    """A partition. ops: as in the API graph. inplace: (input id, output id) that may share memory."""

    kind: str
    ops: tuple[str, ...]
    isa: str
    threads: int
    compile_s: float
    nests: tuple[Nest, ...]
    passes: tuple[PassStep, ...]
    buffers: tuple[Buffer, ...]
    arenas: tuple[Arenas, ...]
    constants: tuple[ConstantBuffer, ...]
    inplace: tuple[tuple[int, int], ...]


def explain(partition: Partition, target: Target | None = None, *, with_tuning: bool = True) -> Explanation:
    """Compile a partition as compile_partition does, but without caches, and report how. Raises the errors of compile_partition.
    with_tuning: apply the tuning file, if one is configured."""
    check_compilable(partition)
    target = target or current()
    if with_tuning:
        partition = replace(partition, options=tuned(partition.options, target))
    with recorded() as record:
        executable = compile_anew(partition, target, (), time.perf_counter())
    graphs = [(s, s.ir) for s in record.steps if isinstance(s.ir, Graph)]
    mains, inits = ([(s, s.ir) for s in record.steps if isinstance(s.ir, Func) and s.ir.runs_once is once] for once in (False, True))
    (_, scheduled), (_, full), (_, planned) = graphs[-1], mains[0], mains[-1]
    constants = zip(executable.signature.constants, executable.signature.literals, strict=True)
    return Explanation(
        partition.kind,
        tuple(f"{op.kind}#{op.id}" for op in partition.ops),
        target.isa.name,
        executable.code.threads,
        executable.compile_s,
        tuple(_nests(scheduled, record)),
        (*(PassStep(s.name, s.seconds, s.is_changed, s.is_off) for s, _ in graphs if s.name), *_loop_steps(mains, [s for s, _ in inits])),
        tuple(_buffers(full, planned)),
        tuple(_arenas(f, executable.code.threads) for f in (planned, *(f for _, f in inits[-1:]))),
        tuple(ConstantBuffer(t.name, t.nbytes, "init" if data is None else "the compiler") for t, data in constants),
        tuple((partition.inputs[i].id, partition.outputs[o].id) for i, o in sorted(executable.inplace)),
    )


def _nests(g: Graph, record: Record) -> Iterator[Nest]:
    begins = {n.about[0]: n.why for n in record.notes if len(n.about) == 1}
    off = any(s.is_off and s.name == "fuse-coarse" for s in record.steps)
    for node in g.nests:
        yield Nest(
            node.name,
            "init" if g.is_init(node) else "main",
            tuple(_section(g, stage, begins) for stage in node.stages),
            tuple(_value(g, v) for v in node.ins),
            tuple(_value(g, v) for v in node.outs),
            tuple(f"%{v}" for v in node.prefetched_entries),
            tuple(f"%{v}" for v in node.prefetched_rows),
            tuple(_apart(g, node, record.notes, off=off)),
            tuple(n.why for n in record.notes if n.about == (node.name,))[-1:],
            node.is_serial,
        )


def _apart(g: Graph, node: FusedOp, notes: Sequence[Note], *, off: bool) -> Iterator[tuple[str, str]]:
    """The nests that read results of this one, and why they are separate."""
    for other in g.nests:
        if set(other.ins) & set(node.outs):
            why = next((n.why for n in notes if n.about == (node.name, other.name)), "")
            once = "it is computed once, by init" if g.is_init(node) else "fuse-coarse was left out" if off else ""
            yield other.name, why or once


def _section(g: Graph, stage: Stage, begins: dict[object, str]) -> StageReport:
    ops = tuple(
        PlacedOp(op.kind, ", ".join(_value(g, v) for v in op.outs), anchor.value, begins.get(op.outs[0], ""))
        for op, anchor in zip(stage.ops, stage.anchors, strict=True)
    )
    return StageReport(ops, None if stage.parameters is None else _chosen(g, stage.ops[0], stage.parameters))


_PARAMETERS = "batch m n k mb nb split_n panels_first unrolled_columns score_columns ks ns cores"


def _chosen(g: Graph, op: Op, p: Parameters) -> ProductParameters:
    given: dict[str, int | bool] = {name: getattr(p, name) for name in _PARAMETERS.split()}
    derived = {name.upper(): getattr(p, name) for name in ("mpn", "npn", "msn", "nsn", "ksn")}
    return ProductParameters(product(g, op).text, given, derived | {"tasks": p.tasks}, p.why)


def _value(g: Graph, id: int) -> str:
    v = g.value(id)
    layout = "" if v.layout.is_plain else f" {v.layout}"
    return f"%{v.id}: {v.dtype.value}[{','.join(map(str, v.shape))}]{layout}"


def _loop_steps(mains: Sequence[tuple[Step, Func]], inits: Sequence[Step]) -> Iterator[PassStep]:
    """The passes on Tensor IR: of both functions, which go through the same passes, or of main alone."""
    for (s, main), *other in zip(mains, inits, strict=True) if inits else zip(mains, strict=True):
        both = s, *other
        yield PassStep(s.name or "lower", sum(b.seconds for b in both), any(b.is_changed for b in both), s.is_off, *temporary_bytes(main))


def _buffers(full: Func, planned: Func) -> Iterator[Buffer]:
    declared = temporaries(full)
    for name, (t, scope) in temporaries(planned).items():
        yield Buffer(name, scope.value, declared[name][0].nbytes if name in declared else 0, t.nbytes, t.offset or 0)


def _arenas(f: Func, threads: int) -> Arenas:
    return Arenas(f.name, f.shared_bytes, f.thread_bytes, *bytes_without_reuse(f), threads)
