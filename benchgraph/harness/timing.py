"""Mode P: how long each policy takes, measured side by side.

Per case and policy: compile, bind, and make one native call of the whole chain. Then rounds: in each, one sample of every policy and one
of each of the machine's roofs, in shuffled order, so that a change of frequency or a busy neighbour hits all alike. Single partitions are
sampled the same way afterwards. A hot sample is as many executions as last MIN_SAMPLE_S, whose data stay in cache as they fall; a cold one
a single execution, before which the data are flushed (cold_cache.py). With streams, several executions run at the same time (streams.py).

What `execute` from Python costs is sampled in the same rounds, where executions are so short that it shows (MOST_CALLED_S), and never mixed
with the above: the same steps asked for one by one, through the library's API.

The roofs are the arithmetic peak, in what the graph's products are in (arithmetic.py), and the bandwidth at which the machine reads as
many bytes as the case, or the partition, must move at least: hot data of that size may lie in a cache, and the probe then reads that cache.
Cold data cannot, so the roof for `all` is memory's. Where only a part is cold (`wei`), the roof is that of hot data, which is too high
rather than too low.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from statistics import median

from benchgraph.core.errors import Unimplemented
from benchgraph.core.implementation import ByPartition
from benchgraph.graph.ir import Graph
from benchgraph.harness.bench import Bench
from benchgraph.harness.built import Built, Inputs, Work, build, copies, need_in_process, needed_bytes
from benchgraph.harness.contenders import Contender, Outcomes
from benchgraph.harness.inputs import inputs_of
from benchgraph.harness.layers import LayerSampler
from benchgraph.harness.partitioning import described, partition_graph, partition_notes, traffic
from benchgraph.library.protocol import Library
from benchgraph.machine.cpu_affinity import pinned
from benchgraph.machine.target import current
from benchgraph.measure.arithmetic import arithmetic
from benchgraph.measure.cold_cache import ColdCache, cold_cache
from benchgraph.measure.layers import flops
from benchgraph.measure.phases import phase
from benchgraph.measure.sampling import LEAST_ROUNDS, MIN_SAMPLE_S, Called, Rounds, Sampler, calibrate, called, interleave, warmed
from benchgraph.measure.streams import for_streams, threads_per_stream
from benchgraph.options.problem import Problem
from benchgraph.partition.ir import Partition
from benchgraph.results.layers import distrust as layers_distrust
from benchgraph.results.result import PartitionTiming, PolicyTiming, Result, Status, Timing, spread

MEMORY_SHARE = 0.60  # of the free memory: more than this, and policies are measured one after another
MOST_CALLED_S = 1e-3  # longer executions vary by more than a call from Python costs
LAYER_SHARE = 1 / 3  # of the time budget, once more, for the layers of one contender
WHOLE_SHARE = 2 / 3  # of the time budget for whole graphs, the rest for single partitions


def measure(problem: Problem, graph: Graph, contenders: Sequence[Contender], bench: Bench) -> Result:
    """Time the graph under every contender. Raises errors of partitioning and compiling, and InvalidArguments for bad streams."""
    settings = problem.globals
    cold, streams, cores = cold_cache(settings.cold_cache), settings.num_streams, current().cores
    each = threads_per_stream(streams, cores, is_single=cold.is_made)
    for c in contenders:
        need_in_process(c.library, cold, streams)
    rng = random.Random(settings.seed)
    session = _Session(bench, rng, settings.fixed_times, cold, streams, each * streams, arithmetic(graph))
    if problem.wants_layers and streams == 1:
        session.with_layers = {c.label: c.library for c in _first_of_each_library(problem, contenders)}
    with for_streams(streams, each):
        return _measure(problem, graph, contenders, session)


def _first_of_each_library(problem: Problem, contenders: Sequence[Contender]) -> list[Contender]:
    """Under the policies that were asked for, else under its first."""
    if problem.globals.policy:
        return list(contenders)
    return list({c.spec.library: c for c in reversed(contenders)}.values())


def _measure(problem: Problem, graph: Graph, contenders: Sequence[Contender], session: _Session) -> Result:
    settings, outcomes, partitions = problem.globals, Outcomes(problem, contenders), dict[Contender, tuple[Partition, ...]]()
    notes = list[str]()
    if session.cold.what == "wei" and not any(t.is_constant for t in graph.inputs):
        notes.append("--cold-cache=wei: no input of the graph is constant, so none of the data were cold")
    for c in contenders:
        with outcomes.record_failure(c):
            try:
                partitions[c] = partition_graph(problem, graph, c.library, c.spec)
            except Unimplemented as lack:
                if settings.policy or c.spec.is_witness or not partitions:
                    raise
                notes.append(f"not measured: {lack}")  # the mode's own choice, beside one that can be measured
    with phase("fill"):
        first = inputs_of(problem, graph)
        inputs = [first, *(copies(graph, first) for _ in range(session.streams - 1))]
    need, free = session.streams * sum(needed_bytes(graph, parts) for parts in partitions.values()), session.bench.free_bytes()
    groups = [partitions] if need <= MEMORY_SHARE * free else [{c: parts} for c, parts in partitions.items()]
    budget_s, timings, ran = settings.budget_ms * 1e-3 / len(groups), list[PolicyTiming](), dict[str, ByPartition]()
    for group in groups:  # nothing but the argument holds what is built, so one group's memory is free before the next needs it
        timings += session.measure(graph, _built(graph, group, inputs, outcomes, ran), budget_s)
    if len(groups) > 1:
        notes.append(f"policies measured one after another: together they need {need / 2**30:.1f} GiB of {free / 2**30:.1f} free")
    result = replace(
        described(Status.EXECUTED, graph),
        n_partitions={c.label: len(parts) for c, parts in partitions.items()},
        implementations=ran,
        timings=tuple(timings),
        peak_samples=tuple(session.peaks),
        arithmetic=session.arithmetic,
        arithmetic_samples=tuple(session.arithmetic_peaks),
        bandwidth_samples={size: tuple(samples) for size, samples in sorted(session.bandwidths.items())},
        cold_cache=settings.cold_cache,
        num_streams=session.streams,
    )
    notes += [note for c, parts in partitions.items() for note in partition_notes(c.label, parts)]
    return replace(result, warnings=(*notes, *distrust(result)), notes=tuple(session.notes), outcomes=tuple(outcomes.all))


def _built(
    graph: Graph, group: dict[Contender, tuple[Partition, ...]], inputs: Sequence[Inputs], outcomes: Outcomes, ran: dict[str, ByPartition]
) -> list[Built]:
    """What of a group can be compiled; nobody else holds it. Witnesses execute it once here, where what goes wrong is told.

    ran: gets the implementations of each contender.
    """
    found = []
    for c, parts in group.items():
        with outcomes.record_failure(c):
            built = build(graph, c, parts, inputs)
            if c.spec.is_witness:
                built.whole.chain.run(1)
            found.append(built)
            ran[c.label] = built.implementations
            outcomes.record(c, Status.EXECUTED)
    return found


@dataclass
class _Session:
    """How a case is measured, and what the roofs were meanwhile. threads: of all streams together; bandwidths: by bytes read.

    peaks: of f32; arithmetic_peaks: of the graph's own arithmetic, where that is another one. notes: of what was measured. with_layers:
    labels of the contenders whose layers are timed, and their libraries.
    """

    bench: Bench
    rng: random.Random
    fixed: int
    cold: ColdCache
    streams: int
    threads: int
    arithmetic: str
    arithmetic_peaks: list[float] = field(default_factory=list)
    peaks: list[float] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    bandwidths: dict[int, list[float]] = field(default_factory=dict)
    with_layers: dict[str, Library] = field(default_factory=dict)

    @phase("execute")
    def measure(self, graph: Graph, built: Sequence[Built], budget_s: float) -> list[PolicyTiming]:
        """On as many processors as threads."""
        self.notes += [f"{b.label}: {note}" for b in built for note in b.whole.chain.notes]
        with pinned(self.threads):
            timings = self._in_rounds(built, traffic(graph), budget_s)
            return [self._layered(graph, b, t, budget_s * LAYER_SHARE) for b, t in zip(built, timings, strict=True)]

    def _layered(self, graph: Graph, built: Built, timing: PolicyTiming, budget_s: float) -> PolicyTiming:
        """With the times of its layers, if they are wanted."""
        if (library := self.with_layers.get(built.label)) is None:
            return timing
        evict = None
        if self.cold.is_made:
            evict = self.bench.evict(self.cold.victims(built.whole.data, built.whole.chain), self.cold.tlb_bytes, self.threads)
        sampler = LayerSampler(self.bench.clock, Rounds(budget_s, self.fixed, self.bench.clock), self.threads, evict)
        layers = sampler.profile(graph, built, library, timing)
        if self.cold.what != "all":
            self._probe({1 << (layer.bytes - 1).bit_length() for layer in layers.layers if layer.bytes})
        return replace(timing, layers=layers)

    def _probe(self, sizes: Collection[int]) -> None:
        """Measure the bandwidth at sizes at which it has not been measured."""
        for probe in self.bench.bandwidth(self.threads, sorted(sizes)):
            if probe.nbytes not in self.bandwidths:
                self.bandwidths[probe.nbytes] = [probe.sample() for _ in range(LEAST_ROUNDS)]

    def _in_rounds(self, built: Sequence[Built], nbytes: int, budget_s: float) -> list[PolicyTiming]:
        """Wholes in interleaved rounds, then single partitions likewise."""
        several = [b for b in built if len(b.partitions) > 1]
        share = WHOLE_SHARE if several else 1.0
        wholes, called = self._sampled([b.whole for b in built], [nbytes], budget_s * share, [b.calls for b in built])
        work = [w for b in several for w in b.alone]
        sizes = [traffic(p) for b in several for p in b.partitions]
        alone = iter(self._sampled(work, sizes, budget_s * (1 - share))[0] if work else ())
        found = []
        for b, whole, calls in zip(built, wholes, called, strict=True):  # a partition that is the whole graph takes the whole's timing
            parts = [next(alone) for _ in b.alone] if len(b.alone) > 1 else [whole] * len(b.alone)
            found.append(policy_timing(b, whole, parts, calls))
        return found

    def _sampled(
        self, work: Sequence[Work], sizes: Sequence[int], budget_s: float, calls: Sequence[Sequence[Callable[[], None]]] = ()
    ) -> tuple[list[Timing], list[Timing | None]]:
        """Timings of all work, and of the calls from Python that stand for some of it, None where they would not show; interleaved with
        samples of the peak and of the bandwidths at these sizes."""
        samplers = [self._sampler(w) for w in work]
        python_samplers = [self._called(s, steps) for s, steps in zip(samplers, calls, strict=False)]
        probes = [self.bench.probe(self.threads, name) for name in dict.fromkeys(("f32", self.arithmetic))]
        streams = self.bench.bandwidth(self.threads, [sys.maxsize] if self.cold.what == "all" else [n * self.streams for n in sizes])
        asked = [c for c in python_samplers if c is not None]
        sources = [*(s.sample for s in samplers), *(c.sample for c in asked), *(p.sample for p in probes), *(s.sample for s in streams)]
        samples = iter(interleave(sources, Rounds(budget_s, self.fixed, self.bench.clock), self.rng))
        counts = len(samplers), len(asked), len(probes), len(streams)
        hot, python, peaks, bandwidths = (list(islice(samples, count)) for count in counts)
        self.peaks += peaks[0]
        self.arithmetic_peaks += [x for found in peaks[1:] for x in found]
        for probe, found in zip(streams, bandwidths, strict=True):
            self.bandwidths.setdefault(probe.nbytes, []).extend(found)
        from_python = iter(python)
        return (
            [Timing(found, s.executions) for found, s in zip(hot, samplers, strict=True)],
            [None if c is None else Timing(next(from_python), c.executions) for c in python_samplers],
        )

    def _called(self, native: Sampler, steps: Sequence[Callable[[], None]]) -> Called | None:
        if not steps or self.cold.is_made or self.streams > 1 or native.executions * MOST_CALLED_S < MIN_SAMPLE_S:
            return None
        return called(steps, self.bench.clock)

    def _sampler(self, work: Work) -> Sampler:
        if not self.cold.is_made:
            return calibrate(work.chain, self.bench.clock, self.streams)
        evict = self.bench.evict(self.cold.victims(work.data, work.chain), self.cold.tlb_bytes, self.threads)
        return warmed(work.chain, evict, self.bench.clock)


def policy_timing(built: Built, whole: Timing, alone: Sequence[Timing], called: Timing | None = None) -> PolicyTiming:
    """alone: of every partition. called: of the whole, asked for from Python."""
    parts = [
        PartitionTiming(i, p.kind, tuple(op.id for op in p.ops), flops(p.ops), traffic(p), c.compile_s, timing, c.is_warm)
        for i, (p, c, timing) in enumerate(zip(built.partitions, built.compiled, alone, strict=True))
    ]
    return PolicyTiming(built.label, whole, tuple(parts), called)


# ---- reasons to distrust a measurement --------------------------------------------------------------------------------

SHORT_SAMPLE_S = 1e-3  # shorter samples are unreliable (pyperf's limit)
SHORT_COLD_S = 50e-6  # a sample of one execution: calling it from Python takes 1 to 2 us, and two threads meet within 5
SPREAD_LIMIT = 0.10  # quartile distance over median from which timings are unreliable


def distrust(result: Result) -> list[str]:
    warnings = [line for t in result.timings for line in (*_samples(t, result), *_shares(t, result))]
    warnings += [line for t in result.timings if t.layers is not None for line in layers_distrust(t.policy, t.layers)]
    if (moved := spread(result.peak_samples)) >= SPREAD_LIMIT:
        warnings.append(f"the machine's peak moved by {moved:.0%} during the run (frequency, or other programs)")
    return warnings


def _samples(t: PolicyTiming, result: Result) -> Iterator[str]:
    if t.timing.spread >= SPREAD_LIMIT:
        yield f"{t.policy}: quartiles lie {t.timing.spread:.0%} apart; close other programs or raise --max-ms-per-prb"
    short_s, unit = (SHORT_SAMPLE_S, "1 ms") if result.cold_cache == "none" else (SHORT_COLD_S, "50 us")
    if t.timing.times == 1 and median(t.timing.samples_s) < short_s:
        yield f"{t.policy}: samples last under {unit}; the clock is too coarse for them"


def _shares(t: PolicyTiming, result: Result) -> Iterator[str]:
    work = result.roofline(t)
    if (share := work.peak_share or 0.0) > 1:
        why = "the machine was busy whenever the peak was measured, or work is left out (--mode=C)"
        yield f"{t.policy}: {share:.0%} of the peak cannot be; {why}"
    if (share := work.bandwidth_share or 0.0) > 1:
        yield f"{t.policy}: {share:.0%} of the bandwidth cannot be; the machine was busy whenever the bandwidth was measured"
