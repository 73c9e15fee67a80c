"""Wildcards that say what they compute, executed by numpy between the partitions of any library.

The library is given the graph without those texts: to it they are Wildcards like others, so that it knows which values leave its
partitions, and makes none that goes around one. Its partitions are then steps like before, and each Wildcard is a step of its own, on
the same arrays. A library in this process executes and is timed as always, from one Wildcard to the next by a native call. One in
another process is timed by its own clock, on its own copies of the arrays, which are exchanged before the first timed execution and are
the same in all later ones; the time of the copies does not count.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, groupby

from benchgraph import fallback
from benchgraph.core.arrays import Array
from benchgraph.core.errors import within
from benchgraph.core.implementation import Implementation
from benchgraph.core.layers import CALLER, Layer, Profiled, Span
from benchgraph.core.tensor import TensorType
from benchgraph.fallback.function import Function
from benchgraph.graph.ir import Graph, Op
from benchgraph.library.protocol import Bound, Chain, Compiled, Library
from benchgraph.ops.structural import COMPUTES, WILDCARD, function_of
from benchgraph.partition.ir import Partition, Policy
from benchgraph.results.fallback_kind import FallbackKind


def has_function(op: Op) -> bool:
    """Whether it is a Wildcard that says what it computes."""
    return op.kind == WILDCARD and COMPUTES in op.attrs


def is_fallback(partition: Partition) -> bool:
    return has_function(partition.ops[0])


def with_fallback(library: Library, graph: Graph) -> Library:
    """The library, with numpy for the Wildcards of a graph that has any to be executed."""
    return WithFallback(library) if any(map(has_function, graph.ops)) else library


@dataclass(frozen=True)
class WithFallback:
    """A Library: `own`, and numpy beside it."""

    own: Library

    @property
    def name(self) -> str:
        return self.own.name

    @property
    def version(self) -> str:
        return self.own.version

    @property
    def is_in_process(self) -> bool:
        return self.own.is_in_process

    @property
    def dumps_itself(self) -> bool:
        return self.own.dumps_itself

    def partitions(self, graph: Graph, policy: Policy) -> tuple[Partition, ...]:
        texts = {op.id: op for op in graph.ops if has_function(op)}
        bare = replace(graph, ops=tuple(replace(op, attrs=op.attrs.without(COMPUTES)) if op.id in texts else op for op in graph.ops))
        return tuple(_as_step(p, texts) for p in self.own.partitions(bare, policy))

    def compile(self, partition: Partition) -> Compiled:
        return NumpyStep(partition.ops[0]) if is_fallback(partition) else self.own.compile(partition)

    def compile_all(self, partitions: Sequence[Partition]) -> list[Compiled]:
        made = iter(self.own.compile_all([p for p in partitions if not is_fallback(p)]))
        return [NumpyStep(p.ops[0]) if is_fallback(p) else next(made) for p in partitions]

    def caller(
        self, partition: Partition, compiled: Compiled, inputs: Sequence[Array], outputs: Sequence[Array]
    ) -> Callable[[], None] | None:
        """None: a program would call its own functions in the place of a Wildcard."""
        return None

    def sequence(self, steps: Sequence[Bound]) -> Chain:
        parts = [
            part
            for is_numpy, group in groupby(steps, lambda step: isinstance(step, NumpyBound))
            for part in ([NumpyChain(step) for step in group] if is_numpy else [self.own.sequence(list(group))])  # type: ignore[arg-type]
        ]
        return parts[0] if len(parts) == 1 else MixedChain(steps, parts)

    def profiled(
        self, partitions: Sequence[Partition], inputs: Sequence[Sequence[Array]], outputs: Sequence[Sequence[Array]]
    ) -> Profiled | None:
        """The library's own layers, and each Wildcard as one; None for a library that tells no layers, or is in another process."""
        if not self.is_in_process:
            return None
        parts = list[tuple[int, Profiled]]()  # and the position of its first partition
        steps = enumerate(zip(partitions, inputs, outputs, strict=True))
        for is_numpy, group in groupby(steps, lambda step: is_fallback(step[1][0])):
            own = list(group)
            if is_numpy:
                parts += [(n, NumpyProfiled(NumpyStep(p.ops[0]).bind(ins, outs))) for n, (p, ins, outs) in own]
                continue
            made = self.own.profiled(*map(list, zip(*(step for _, step in own), strict=True)))
            if made is None:
                return None
            parts.append((own[0][0], made))
        return MixedProfiled(parts)


def _as_step(partition: Partition, texts: dict[int, Op]) -> Partition:
    """A partition of one Wildcard that numpy executes; any other as it is."""
    (first, *others) = partition.ops
    if others or first.id not in texts:
        return partition
    step = NumpyStep(texts[first.id])
    return replace(partition, kind=f"{fallback.runner(step.function)} {step.function.label}", ops=(step.op,), reason="")


@dataclass(frozen=True)
class NumpyStep:
    """A Wildcard as a compiled partition."""

    op: Op
    compile_s: float = 0.0
    is_warm: bool = False

    @property
    def function(self) -> Function:
        function = function_of(self.op.attrs)
        assert function is not None
        return function

    @property
    def implementations(self) -> tuple[Implementation, ...]:
        return (Implementation(self.function.label, fallback.runner(self.function)),)

    def bind(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> NumpyBound:
        types = tuple(t.type for t in self.op.outputs)
        return NumpyBound(self, self.function, types, tuple(inputs), tuple(outputs))


@dataclass(frozen=True)
class NumpyBound:
    """A Wildcard on arrays. types: of its results."""

    step: NumpyStep
    function: Function
    types: tuple[TensorType, ...]
    inputs: tuple[Array, ...]
    outputs: tuple[Array, ...]

    def __call__(self) -> None:
        """Raises BenchgraphError for operands that the function does not take."""
        with within(self.step.op.label):
            results = fallback.execute(self.function, self.inputs, self.types)
        for array, result in zip(self.outputs, results, strict=True):
            array[...] = result


@dataclass(frozen=True)
class NumpyChain:
    step: NumpyBound
    implementations: Sequence[tuple[Implementation, ...]] = ()
    constants: Sequence[Array] = ()
    notes: Sequence[str] = ()

    def run(self, times: int) -> None:
        for _ in range(times):
            self.step()


class MixedChain:
    """Native calls, and Wildcards between them. The first run executes step by step, which fills every array of both sides."""

    def __init__(self, steps: Sequence[Bound], parts: Sequence[Chain]) -> None:
        self._steps, self._parts, self._is_filled = steps, parts, False

    @property
    def implementations(self) -> Sequence[tuple[Implementation, ...]]:
        """() where some part does not tell more than its compiled partitions."""
        found = [[p.step.step.implementations] if isinstance(p, NumpyChain) else list(p.implementations) for p in self._parts]
        return [each for part in found for each in part] if all(found) else ()

    @property
    def constants(self) -> Sequence[Array]:
        return [array for part in self._parts for array in part.constants]

    @property
    def notes(self) -> Sequence[str]:
        return list(dict.fromkeys(note for part in self._parts for note in part.notes))

    def run(self, times: int) -> float | None:
        """Seconds where the library has its own clock, with those of numpy by ours; else None."""
        if not self._is_filled:
            for step in self._steps:
                step()
            self._is_filled = True
        total, has_clock = 0.0, False
        for _ in range(times):
            for part in self._parts:
                started = time.perf_counter()
                measured = part.run(1)
                total += time.perf_counter() - started if measured is None else measured
                has_clock = has_clock or measured is not None
        return total if has_clock else None


@dataclass(frozen=True)
class NumpyProfiled:
    """A Wildcard as a layer."""

    step: NumpyBound

    @property
    def layers(self) -> Sequence[Layer]:
        (ran,) = self.step.step.implementations
        return (Layer((self.step.step.op.id,), kind=ran.primitive, implementation=ran.name),)

    def run(self) -> Sequence[Span]:
        begin = time.perf_counter()
        self.step()
        return [Span(0, begin, time.perf_counter(), CALLER)]


class MixedProfiled:
    """Layers of a library, and Wildcards between them. parts: with the position of the first partition of each."""

    def __init__(self, parts: Sequence[tuple[int, Profiled]]) -> None:
        self._parts = [part for _, part in parts]
        self._first_layers = [0, *accumulate(len(part.layers) for part in self._parts)]
        self.layers = tuple(replace(x, partition=first + x.partition) for first, part in parts for x in part.layers)

    def run(self) -> Sequence[Span]:
        """One part after the other, by one clock."""
        parts = zip(self._first_layers, self._parts, strict=False)
        return [replace(span, layer=first + span.layer) for first, part in parts for span in part.run()]


def fallback_kinds(graph: Graph) -> tuple[FallbackKind, ...]:
    """The ops that numpy executes, by kind, the most frequent first."""
    by_kind = dict[tuple[str, str], list[Op]]()
    for op in filter(has_function, graph.ops):
        ((implementation,),) = (NumpyStep(op).implementations,)
        by_kind.setdefault((implementation.primitive, implementation.name), []).append(op)
    found = sorted(by_kind.items(), key=lambda item: (-len(item[1]), item[0]))
    return tuple(FallbackKind(kind, by, tuple(op.id for op in ops), _flops(ops)) for (kind, by), ops in found)


def _flops(ops: Sequence[Op]) -> int | None:
    known = [fallback.flops(NumpyStep(op).function, [t.type for t in op.inputs], [t.type for t in op.outputs]) for op in ops]
    return None if None in known else sum(n for n in known if n is not None)
