"""Runs to make pages of: timed, checked, hostile, and with nothing in them."""

from __future__ import annotations

from benchgraph.present.page.page import page
from benchgraph.results.accuracy import Accuracy
from benchgraph.results.machine import Machine
from benchgraph.results.mode import Mode
from benchgraph.results.result import CaseResult, PartitionTiming, PolicyTiming, Result, ResultSet, Status, Timing
from benchgraph.results.sketch import OpSketch, Sketch

MACHINE = Machine("Test CPU", 4, "avx2", {"python": "3.11"}, 2, {"f32": 16e9}, {"f32": 8e9}, {"f32": 6e9}, memory_bandwidth=2e9)
GRAPH = Sketch(
    (
        OpSketch(7, "MatMul", "", (), (0, 1), (2,)),
        OpSketch(9, "ReLU", "last", ("alpha=1",), (2,), (3,)),
        OpSketch(4, "End", "", (), (3,), ()),
    ),
    {0: "%0 f32 4x8 ab", 1: "%1 f32 8x4 ab", 2: "%2 f32 4x4 ab", 3: "%3 f32 4x4 ab"},
    (0, 1),
    (3,),
)
HOSTILE = [
    "</script><script>document.title='broken'</script>",
    '"><img src=x onerror="document.title=\'broken\'">',
    "'\"&amp;<b>",
    "{{ 7 * 7 }}{% endraw %}",
    "\x00\x1b[31mred\r\n\t\x7f\x9f",
    "\u202egnp.exe\u2066 \ud800 \ufffe",
    "$\\frac{1}{2}$ $ __init__ #00aa01 url(#x)",
    "-->]]><!--",
]


def timing(*ms: float) -> Timing:
    return Timing(tuple(t * 1e-3 for t in ms), 1)


def policy(name: str, factor: float, parts: int, ms: float) -> PolicyTiming:
    """Seven samples around factor * ms, and partitions that share it."""
    samples = [factor * ms * (1 + 0.01 * ((3 * i) % 7)) for i in range(7)]
    share = timing(*(s / parts for s in samples))
    cut = [PartitionTiming(i, "single", (7, 9) if parts == 1 else ((7, 9)[i],), 4_000_000, 2_000_000, 0.010, share) for i in range(parts)]
    return PolicyTiming(name, timing(*samples), tuple(cut))


def timed(index: int, *, ms: float, nbytes: int, ratios: tuple[float, ...] = (1.0, 1.25, 2.5), names: tuple[str, ...] = ()) -> CaseResult:
    series = names or ("fused", "post_ops", "one_op_each")
    timings = tuple(policy(name, ratio, 1 if i == 0 else 2, ms) for i, (name, ratio) in enumerate(zip(series, ratios, strict=True)))
    result = Result(
        Status.EXECUTED,
        n_partitions={t.policy: len(t.partitions) for t in timings},
        flops=8_000_000,
        bytes=nbytes,
        timings=timings,
        peak_samples=(14e9, 15e9, 16e9),
        bandwidth_samples={1_000_000: (4e9, 5e9), 100_000_000: (2e9,)},
        warnings=("loud",) if index == 1 else (),
        graph=GRAPH,
    )
    return CaseResult(
        index, f"--mode=P --graph --case={'mlp' if index % 2 else 'attention'}_{index}.json", 1.5 + index, result, {"compile": 1.25}
    )


def far(where: str, size: float, errors: int = 0) -> Accuracy:
    return Accuracy(where, 3, "f32", 16, errors, 1e-7 * size, 2e-5 * size, 1.5 * size, 3e-8 * size, 0.25, "fused")


def checked(index: int, status: Status, reason: str = "", *sizes: float) -> CaseResult:
    wrong = 5 if status is Status.FAILED else 0
    outputs = tuple(far(f"partition {i} (chain)", size, wrong) for i, size in enumerate(sizes))
    result = Result(
        status, reason, wrong, 16 * len(sizes), {"fused": 1}, {"fused": ((7, 9),)}, accuracy=outputs, graph=GRAPH if sizes else None
    )
    return CaseResult(index, f"--graph --case=op_{index}.json", 0.5 / (index + 1), result, {"execute": 0.25})


TIMED = ResultSet(
    Mode.performance,
    MACHINE,
    (
        timed(0, ms=2.0, nbytes=100_000),
        timed(1, ms=1.0, nbytes=1_000_000),
        timed(2, ms=10.0, nbytes=10_000_000, ratios=(1.0, 0.5, 1.0)),
        CaseResult(3, "--mode=P --graph --case=nope.json", 0.0, Result(Status.INVALID_ARGUMENTS, "nope.json: no such file")),
        CaseResult(4, "--mode=P --matmul 4x8:8x4", 0.25, Result(Status.SKIPPED, "not enough memory")),
    ),
    12.5,
)
CHECKED = ResultSet(
    Mode.correctness,
    MACHINE,
    (
        checked(0, Status.PASSED, "", 1.0, 4.0),
        checked(1, Status.FAILED, "tensor 3: 5 of 16 values differ", 1e6),
        checked(2, Status.MISTRUSTED, "99% zeros", 0.0),
        checked(3, Status.UNIMPLEMENTED, "no kernel"),
        checked(4, Status.PASSED, "", 2.0),
    ),
    2.5,
)
EMPTY = ResultSet(Mode.correctness, None, (), 0.0)


def hostile() -> ResultSet:
    """Such texts wherever a user's words can get to."""
    cases = []
    for i, text in enumerate(HOSTILE):
        graph = Sketch((OpSketch(7, text, text, (f"a={text}",), (0,), (3,)),), {0: text, 3: f"%3 {text}"}, (0,), (3,))
        timings = (policy("fused", 1.0, 1, 1.0), policy(text, 2.0, 1, 1.0))
        result = Result(
            Status.FAILED, text, 1, 2, flops=10, bytes=10, timings=timings, warnings=(text,), accuracy=(far(text, 1.0),), graph=graph
        )
        cases.append(CaseResult(i, f"--graph --case={text}", 1.0, result, {text: 1.0}))
    return ResultSet(Mode.performance, Machine(HOSTILE[0], 1, "avx2", {HOSTILE[1]: HOSTILE[2]}), tuple(cases), 1.0)


STRANGE = hostile()
PAGES: dict[tuple[int, int], tuple[ResultSet, str]] = {}


def made(results: ResultSet, many: int = 300) -> str:
    """The page about a run, made once in a process."""
    key = id(results), many
    if key not in PAGES:
        PAGES[key] = results, page([("", results)], many)
    return PAGES[key][1]
