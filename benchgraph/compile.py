"""The compiler in one file: partition -> Graph IR -> Tensor IR -> LLVM IR -> executable."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Hashable, Iterator
from dataclasses import dataclass, field, fields, replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from benchgraph.codegen.convert import check_stored, memory_type
from benchgraph.codegen.emit import emit
from benchgraph.core.config import config
from benchgraph.core.errors import BenchgraphError, Unimplemented, within
from benchgraph.core.files import make_folder
from benchgraph.core.gc_pause import gc_paused
from benchgraph.core.layout import LAYOUTS
from benchgraph.core.passes import ASSEMBLY, GIR, LLVM, LLVM_OPT, PARTITION, TEXTS, TIR, Observer, Pass, print_stage, run
from benchgraph.core.tensor import LayoutType, LogicalTensor, PropertyType, check_memory
from benchgraph.gir import passes as gir_passes
from benchgraph.gir.build import from_partition
from benchgraph.gir.ir import Graph, Value
from benchgraph.gir.text import print_gir
from benchgraph.gir.verify import verify as verify_gir
from benchgraph.graph.text import print_graph
from benchgraph.lower import Lowered, lower
from benchgraph.machine.target import Target, current
from benchgraph.partition.ir import Partition
from benchgraph.runtime import executable_cache
from benchgraph.runtime.code import all_kept
from benchgraph.runtime.executable import Executable, Signature, UnlinkedExecutable
from benchgraph.runtime.executable_cache import CacheEntry
from benchgraph.runtime.jit import prepared_linker
from benchgraph.runtime.profiled import ProfiledExecutable
from benchgraph.runtime.serialise import from_bytes, to_bytes
from benchgraph.schedule.tuning import take, taken, tuned
from benchgraph.tir import passes as tir_passes
from benchgraph.tir.ir import Func, Module, Tensor
from benchgraph.tir.text import print_tir

_ALL: tuple[Pass[Any], ...] = (*gir_passes.PIPELINE, *tir_passes.PIPELINE)
# What can be left out: the word after `no-`, and the passes that it takes out, in words.
SWITCHES = {p.switch: " and ".join(dict.fromkeys(q.name for q in _ALL if q.switch == p.switch)) for p in _ALL if p.switch}
# Former switches and the present one of each; stages and their former names.
FORMER_SWITCHES = {old: p.switch for p in _ALL for old in p.former_switches}
FORMER_STAGES = {p.name: p.former_names for p in _ALL}


@gc_paused()
def compile_partition(partition: Partition, target: Target | None = None, open_outputs: Collection[int] = ()) -> Executable:
    """Compile one partition for the target (this machine, as configured, unless given).

    open_outputs: ids of outputs whose layout is the compiler's to choose; the executable says which it took. Other outputs of layout any
    are row-major.

    Raises Unimplemented with the reason, InvalidArguments for border tensors with negative strides and outputs whose elements overlap,
    ParseError for a broken tuning file.
    """
    wanted = order(partition, target, open_outputs)
    return wanted.find() or wanted.make()


@dataclass(frozen=True)
class Order:
    """A partition to compile, once nothing about it is open. Equal ones ask for the same `work`. cache_entry: its place on disk, if it has
    one; spent_s: what it took to get here."""

    work: Hashable
    target: Target
    partition: Partition = field(compare=False)
    open_outputs: frozenset[int] = field(compare=False)
    cache_entry: CacheEntry | None = field(compare=False)
    spent_s: float = field(compare=False)

    @gc_paused()
    def find(self) -> Executable | None:
        """What the disk has."""
        found = None if self.cache_entry is None else self.cache_entry.load(time.perf_counter() - self.spent_s)
        return None if found is None else named(found, self.partition)

    @gc_paused()
    def make(self) -> Executable:
        """Compile it, and keep it on disk."""
        made = compile_anew(self.partition, self.target, self.open_outputs, time.perf_counter() - self.spent_s)
        if self.cache_entry is not None:
            self.cache_entry.save(to_bytes(made.unlinked))
        take(made.prescribed)
        return made

    def take(self, made: bytes, seconds: float) -> Executable:
        """Link what another process has made of `translate` in so many seconds, and keep it on disk."""
        if self.cache_entry is not None:
            self.cache_entry.save(made)
        return from_bytes(made, self.target, time.perf_counter() - self.spent_s - seconds, is_warm=False)


def named(executable: Executable, partition: Partition, *, took_s: float | None = None) -> Executable:
    """The executable of a partition that asks for the same work, with the border tensors of this one in its messages. took_s: another
    compile_s."""
    take(executable.prescribed)
    return executable.with_names(*_names(partition), executable.compile_s if took_s is None else took_s)


def order(partition: Partition, target: Target | None = None, open_outputs: Collection[int] = ()) -> Order:
    """Raises the errors of compile_partition that can be known without compiling."""
    check_compilable(partition)
    begin = time.perf_counter()
    target = target or current()
    partition = replace(partition, options=tuned(partition.options, target))
    asked = work(partition, open_outputs)
    entry = executable_cache.cache_entry(asked, target)
    return Order(asked, target, partition, frozenset(open_outputs), entry, time.perf_counter() - begin)


def check_compilable(partition: Partition) -> None:
    """Raises the errors of compile_partition for ops and dtypes without code generation, and for strides. Inputs may have any strides from
    0 on. Outputs must have room for every element: a stride steps over all dims with smaller ones."""
    if not partition.is_supported:
        raise Unimplemented(partition.reason, where=f"partition {partition.id} ({', '.join(op.label for op in partition.ops)})")
    for op in partition.ops:
        for t in (*op.inputs, *op.outputs):
            try:
                check_stored(t.dtype) if t in op.outputs else memory_type(t.dtype)
            except Unimplemented as bad:
                raise bad.inside(f"{op.label}: tensor {t.id}") from bad
    with within("compile"):
        for t in partition.inputs:
            check_memory(t, is_written=False)
        for t in partition.outputs:
            check_memory(t, is_written=True)


def compile_anew(partition: Partition, target: Target, open_outputs: Collection[int], begin: float) -> Executable:
    """Through all passes, whatever the disk holds. begin: when it was asked for, by time.perf_counter()."""
    observe = _observers(partition)
    with prepared_linker(target) as link:
        made = translate(partition, target, open_outputs, observe)
        code = link(made.units)
    for unit in made.units:
        observe(LLVM_OPT, partial(unit.optimized_ir, target.isa), 0.0)
        observe(ASSEMBLY, partial(unit.assembly, target.isa), 0.0)
    return Executable(code, made.module, made.signature, time.perf_counter() - begin, made.layouts, made.prescribed)


def compile_profiled(partition: Partition, target: Target) -> ProfiledExecutable:
    """Through all passes, into code that reads the clock between the statements of main. No cache of executables has it."""
    begin = time.perf_counter()
    with prepared_linker(target) as link:
        made = translate(partition, target, (), is_profiled=True)
        code = link(made.units)
    return ProfiledExecutable(code, made.module, made.signature, compile_s=time.perf_counter() - begin, layouts=made.layouts)


def stages() -> frozenset[str]:
    """What an observer of a compilation may hear of: the passes of both pipelines, and the texts between them."""
    return frozenset((*TEXTS, *(p.name for p in _ALL)))


def translate(
    partition: Partition,
    target: Target,
    open_outputs: Collection[int],
    observe: Observer = lambda *_: None,
    *,
    is_profiled: bool = False,
) -> UnlinkedExecutable:
    """Through all passes to machine code, which any process on this machine can link. is_profiled: as for `emit`."""
    observe(PARTITION, lambda: print_graph(partition.graph), 0.0)
    g = from_partition(partition, open_outputs)
    observe(GIR, lambda: print_gir(g), 0.0)
    off = partition.options.off
    with taken() as nests:
        lowered = lower(scheduled(g, partition, target, observe))
    done = list[Func]()

    def functions() -> Iterator[Func]:
        """main first: LLVM is at it while the passes are at init."""
        for func in lowered.functions():
            observe(TIR, partial(print_tir, func), 0.0)
            done.append(_keeping_constants(partition, lowered, tir_passes.run(func, target, observe, off=off)))
            yield done[-1]

    def texts() -> Iterator[str]:
        for text in emit(functions(), target, is_profiled=is_profiled):
            observe(LLVM, partial(str, text), 0.0)
            yield text

    units = all_kept(texts(), target.isa)
    signature = _signature(partition, g, lowered)
    return UnlinkedExecutable(units, Module(*done), signature, lowered.layouts, target.isa, tuple(sorted(nests)))


def scheduled(g: Graph, partition: Partition, target: Target, observe: Observer = lambda *_: None) -> Graph:
    """A partition's Graph IR after all of its passes that the partition's options leave on."""
    off = partition.options.off
    return run(gir_passes.PIPELINE, g, target, show=print_gir, verify=verify_gir, observe=observe, off=off)


def work(partition: Partition, open_outputs: Collection[int]) -> Hashable:
    """What the code depends on besides target and settings. A graph's ids are not of it: layers that are alike are one work. Tensors are
    numbered as they appear, and told once. Ids of layouts are this process's, so the layouts stand for them."""
    numbers, rows = dict[int, int](), dict[LogicalTensor, int]()

    def row(t: LogicalTensor) -> int:
        numbers.setdefault(t.id, len(numbers))
        return rows.setdefault(t, len(rows))

    border = tuple(map(row, partition.inputs)), tuple(map(row, partition.outputs))
    ops = tuple(
        (replace(op, id=0, name="", inputs=(), outputs=()), tuple(map(row, op.inputs)), tuple(map(row, op.outputs))) for op in partition.ops
    )
    tensors = tuple((numbers[t.id], *_described(t)) for t in rows)
    opened = tuple(sorted(numbers[id] for id in open_outputs))
    return replace(partition, id=0, ops=(), inputs=(), outputs=(), prepared=()), border, ops, tensors, opened


def _described(t: LogicalTensor) -> tuple[object, ...]:
    """All but its id. A tensor of unsaid property varies."""
    is_ours = t.layout_type is LayoutType.opaque and LAYOUTS.knows(t.layout_id)
    said = PropertyType.variable if t.property_type is PropertyType.undef else t.property_type
    return (*(getattr(t, name) for name in _FACTS), said, LAYOUTS.layout(t.layout_id) if is_ours else t.layout_id)


_FACTS = tuple(f.name for f in fields(LogicalTensor) if f.name not in ("id", "property_type", "layout_id"))


def _keeping_constants(partition: Partition, lowered: Lowered, func: Func) -> Func:
    """Outputs may lie over inputs that vary alone: constants, the user's and ours, are read again by later executions."""
    variable = {v.name for v, t in zip(lowered.inputs, partition.inputs, strict=True) if not t.is_constant}
    return replace(func, inplace=tuple(o for o in func.inplace if o.src in variable))


def _signature(partition: Partition, g: Graph, lowered: Lowered) -> Signature:
    """In the user's words: border tensors are called by their ids, and have the shapes with which they came into the graph."""
    borders = zip((lowered.inputs, lowered.outputs), (g.ins, g.outs), _names(partition), strict=True)
    ins, outs = (tuple(_as_given(t, g.value(v), name) for t, v, name in zip(*border, strict=True)) for border in borders)
    return Signature(ins, outs, lowered.constants, lowered.literals, lowered.init_inputs)


def _as_given(t: Tensor, value: Value, name: str) -> Tensor:
    """Passes give a border tensor another shape only where that is no other memory; blocks have dims of their own."""
    if not value.layout.is_plain or len(t.shape) != len(value.shape):
        return replace(t, name=name)
    return replace(t, name=name, shape=value.shape, strides=value.known_strides)


def _names(partition: Partition) -> tuple[list[str], list[str]]:
    """Of inputs and of outputs, in messages."""
    return [f"tensor {t.id}" for t in partition.inputs], [f"tensor {t.id}" for t in partition.outputs]


def _observers(partition: Partition) -> Observer:
    """Printing, and dumping when BENCHGRAPH_DUMP_DIR is set."""
    directory = config().dump_dir
    dump = _dumper(Path(directory), partition) if directory else None

    def observe(stage: str, text: Callable[[], str], seconds: float) -> None:
        print_stage(stage, text, seconds, FORMER_STAGES.get(stage, ()))
        if dump is not None:
            dump(stage, text)

    return observe


def _dumper(directory: Path, partition: Partition) -> Callable[[str, Callable[[], str]], None]:
    """Files named by partition (its first op's id), order, function (Tensor IR) and stage: p0-03-fuse-fine.txt, p0-26-main-simplify.txt."""
    numbers = count()
    stem = f"p{partition.ops[0].id}"

    def dump(stage: str, text: Callable[[], str]) -> None:
        suffix = {LLVM: "ll", LLVM_OPT: "ll", ASSEMBLY: "s"}.get(stage, "txt")
        content = text()
        function = re.match(r"func (\w+)", content)
        name = stage if function is None else f"{function[1]}-{stage}"
        try:
            make_folder(directory)
            (directory / f"{stem}-{next(numbers):02d}-{name}.{suffix}").write_text(content + "\n", encoding="utf-8")
        except OSError as bad:
            raise BenchgraphError(f"cannot write the dump: {bad.strerror}", where=str(directory), fix="name another folder") from bad

    return dump
