"""Mode P: how long each policy takes, measured side by side.

Per case and policy: compile, bind, and make one native call of the whole chain. Then rounds: in each, one sample of every policy and one
of the machine's arithmetic peak, in shuffled order, so that a change of frequency or a busy neighbour hits all alike. A sample is as many
executions as last MIN_SAMPLE_S. Single partitions are sampled the same way afterwards; data stays in cache as it falls.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import median

from benchgraph.core.arrays import view
from benchgraph.core.target import current
from benchgraph.graph.ir import Graph
from benchgraph.harness.bench import Bench
from benchgraph.harness.buffers import Array, allocate, constant_inputs, load_inputs, plan, storage
from benchgraph.harness.cut import compile_all, cut, flops, traffic
from benchgraph.harness.knobs import Globals
from benchgraph.harness.phases import phase
from benchgraph.harness.problem import Problem
from benchgraph.harness.results import PartitionTiming, PolicyTiming, Result, Status, Timing, spread
from benchgraph.library.protocol import Chain, Compiled, Library
from benchgraph.partition.ir import Partition
from benchgraph.reference import fill

MIN_SAMPLE_S = 20e-3  # what the policy sampled before left in the caches is then a small part of a sample, and the clock's error nothing
AGREEING = 3  # samples that must last so long before the calibration believes it
SHORT_SAMPLE_S = 1e-3  # below this a sample says little (pyperf's limit)
LEAST_ROUNDS = 5  # benchdnn's
SPREAD_LIMIT = 0.10  # quartile distance over median from which timings are not to be believed
MEMORY_SHARE = 0.60  # of the free memory: more than this, and policies are measured one after another
WHOLE_SHARE = 2 / 3  # of the time budget for whole graphs, the rest for single partitions


@dataclass(frozen=True)
class Sampler:
    """One thing to time: `times` executions make a sample."""

    chain: Chain
    times: int
    clock: Callable[[], float]

    def sample(self) -> float:
        """Seconds per execution."""
        started = self.clock()
        self.chain.run(self.times)
        return (self.clock() - started) / self.times


def calibrate(chain: Chain, clock: Callable[[], float]) -> Sampler:
    """Execute once to warm up (constants are computed then), then double the executions until a sample lasts MIN_SAMPLE_S.

    Several samples must agree: a single long one may be a thread that took its time to wake.
    """
    chain.run(1)
    sampler = Sampler(chain, 1, clock)
    while any(sampler.sample() * sampler.times < MIN_SAMPLE_S for _ in range(AGREEING)):
        sampler = replace(sampler, times=sampler.times * 2)
    return sampler


@dataclass(frozen=True)
class Rounds:
    """When to stop: after `fixed` rounds if that is not 0, else when budget_s is spent, but not before LEAST_ROUNDS."""

    budget_s: float
    fixed: int
    clock: Callable[[], float]

    def __iter__(self) -> Iterator[int]:
        started, done = self.clock(), 0
        while done < self.fixed if self.fixed else done < LEAST_ROUNDS or self.clock() - started < self.budget_s:
            yield done
            done += 1


def interleave(sources: Sequence[Callable[[], float]], rounds: Rounds, rng: random.Random) -> list[tuple[float, ...]]:
    """One sample of every source per round, in an order shuffled anew each time; per source, its samples in order of rounds."""
    samples: list[list[float]] = [[] for _ in sources]
    order = list(range(len(sources)))
    for _ in rounds:
        rng.shuffle(order)
        for i in order:
            samples[i].append(sources[i]())
    return [tuple(s) for s in samples]


@dataclass(frozen=True)
class Built:
    """A graph under one policy, ready to run: as a whole, and each partition alone."""

    policy: str
    partitions: tuple[Partition, ...]
    compiled: list[Compiled]
    whole: Chain
    alone: tuple[Chain, ...]


@phase("execute")
def build(graph: Graph, policy: str, partitions: tuple[Partition, ...], library: Library, inputs: dict[int, Array]) -> Built:
    """Compile, lay out the values between partitions, bind."""
    compiled = compile_all(partitions, library, policy)
    layout = plan(graph, partitions)
    slots = [storage(size) for size in layout.slots]
    arrays = dict(inputs)
    for t in (t for p in partitions for t in p.outputs):
        arrays[t.id] = view(slots[layout.slot[t.id]], t) if t.id in layout.slot else allocate(t)
    steps = [c.bind([arrays[t.id] for t in p.inputs], [arrays[t.id] for t in p.outputs]) for p, c in zip(partitions, compiled, strict=True)]
    for step in steps:
        step()
    return Built(policy, partitions, compiled, library.sequence(steps), tuple(library.sequence([s]) for s in steps))


def measure(problem: Problem, graph: Graph, library: Library, bench: Bench) -> Result:
    """Time the graph under every policy of the problem. Raises what cut and compile raise."""
    cuts = {policy: cut(problem, graph, library, policy) for policy in problem.globals.policies}
    with phase("fill"):
        constant = problem.globals.has_no_reference
        inputs = constant_inputs(graph) if constant else load_inputs(graph, fill(graph, problem.globals.seed, cheap=True))
    need, free = sum(_bytes(graph, parts) for parts in cuts.values()), bench.free_bytes()
    groups = [cuts] if need <= MEMORY_SHARE * free else [{policy: parts} for policy, parts in cuts.items()]
    rng = random.Random(problem.globals.seed)
    timings, peaks = list[PolicyTiming](), list[float]()
    budget_s, fixed = problem.globals.budget_ms * 1e-3 / len(groups), problem.globals.fixed_times
    for group in groups:  # nothing but the argument holds what is built, so one group's memory is free before the next needs it
        found, peak = _measure_group(
            [build(graph, name, parts, library, inputs) for name, parts in group.items()], budget_s, fixed, bench, rng
        )
        timings += found
        peaks += peak
    notes = list(unmet(problem.globals))
    if len(groups) > 1:
        notes.append(f"policies measured one after another: together they need {need / 2**30:.1f} GiB of {free / 2**30:.1f} free")
    result = Result(
        Status.EXECUTED,
        n_partitions={policy: len(parts) for policy, parts in cuts.items()},
        flops=flops(graph.ops),
        bytes=traffic(graph),
        input_bytes=sum(t.nbytes for t in graph.inputs),
        timings=tuple(timings),
        peak_samples=tuple(peaks),
    )
    return replace(result, warnings=(*notes, *distrust(result)))


def unmet(settings: Globals) -> Iterator[str]:
    """What the options ask of a measurement and do not get."""
    if settings.cold_cache != "none":
        yield f"--cold-cache={settings.cold_cache} is not made: data stays in the caches from sample to sample"
    if settings.num_streams > 1:
        yield f"--num-streams={settings.num_streams} is not made: there is one stream"


def _bytes(graph: Graph, partitions: Sequence[Partition]) -> int:
    """What a policy holds besides the inputs: values between partitions, outputs, and its own packed copy of the constants."""
    kept = (*graph.outputs, *(t for t in graph.inputs if t.is_constant))
    return plan(graph, partitions).nbytes + sum(t.nbytes for t in kept)


Group = tuple[list[PolicyTiming], tuple[float, ...]]


@phase("execute")
def _measure_group(built: list[Built], budget_s: float, fixed: int, bench: Bench, rng: random.Random) -> Group:
    """The timings, and the samples of the peak taken between them. Wholes in interleaved rounds, then single partitions likewise."""
    several = [b for b in built if len(b.partitions) > 1]
    share = WHOLE_SHARE if several else 1.0
    wholes = [calibrate(b.whole, bench.clock) for b in built]
    rounds = Rounds(budget_s * share, fixed, bench.clock)
    *times, peaks = interleave([*(s.sample for s in wholes), bench.probe(current().cores).sample], rounds, rng)
    whole = {b.policy: Timing(t, s.times) for b, t, s in zip(built, times, wholes, strict=True)}
    singles = [(b.policy, i, calibrate(chain, bench.clock)) for b in several for i, chain in enumerate(b.alone)]
    rounds = Rounds(budget_s * (1 - share), fixed, bench.clock)
    times = interleave([s.sample for _, _, s in singles], rounds, rng) if singles else []
    alone = {(policy, i): Timing(t, s.times) for (policy, i, s), t in zip(singles, times, strict=True)}
    return [_policy_timing(b, whole[b.policy], alone) for b in built], peaks


def _policy_timing(built: Built, whole: Timing, alone: dict[tuple[str, int], Timing]) -> PolicyTiming:
    """alone: (policy, position) -> timing; a partition that is the whole graph has none of its own and takes the whole's."""
    timings = [alone.get((built.policy, i), whole) for i in range(len(built.partitions))]
    parts = [
        PartitionTiming(i, p.kind, tuple(op.id for op in p.ops), flops(p.ops), traffic(p), c.compile_s, timing)
        for i, (p, c, timing) in enumerate(zip(built.partitions, built.compiled, timings, strict=True))
    ]
    return PolicyTiming(built.policy, whole, tuple(parts))


def distrust(result: Result) -> list[str]:
    """Reasons not to believe the numbers, each with a remedy where there is one."""
    found = []
    for t in result.timings:
        if t.timing.spread >= SPREAD_LIMIT:
            found.append(f"{t.policy}: quartiles lie {t.timing.spread:.0%} apart; close other programs or raise --max-ms-per-prb")
        if t.timing.times == 1 and median(t.timing.samples_s) < SHORT_SAMPLE_S:
            found.append(f"{t.policy}: samples last under {SHORT_SAMPLE_S * 1e3:g} ms; the clock is too coarse for them")
        if result.peak and (share := result.flops / t.timing.median_s / result.peak) > 1:
            found.append(f"{t.policy}: {share:.0%} of the peak cannot be; the machine was busy whenever the peak was measured")
    if (moved := spread(result.peak_samples)) >= SPREAD_LIMIT:
        found.append(f"the machine's peak moved by {moved:.0%} during the run (frequency, or other programs)")
    return found
