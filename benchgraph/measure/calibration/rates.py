"""From nanoseconds of loops to rates.

A loop has the name of its rate, whose last word says what becomes of its nanoseconds: cycles, a throughput, or nothing. Rates that loops
give only in combination stand in COMBINED.
"""

from __future__ import annotations

from collections.abc import Mapping

from benchgraph.machine.rates import names
from benchgraph.measure.calibration.arithmetic_loops import HALF
from benchgraph.measure.calibration.overhead_loops import ALL, CALLS, TWO

_SIMPLE = "vector.simple_cycles"
# Rate -> (loop, factor), the sum of whose products is its time
COMBINED: dict[str, tuple[tuple[str, float], ...]] = {
    "vector.exp_cycles": (("vector.exp_cycles", 1), (_SIMPLE, -1)),  # of -x
    **{f"vector.from_{name}_cycles": ((f"vector.from_{name}_cycles", 1), (_SIMPLE, -2)) for name in ("bf16", "f16", "byte")},
    **{
        f"vector.to_{name}_cycles": ((f"vector.to_{name}_cycles", 1), (f"vector.from_{name}_cycles", -1), (_SIMPLE, 1))
        for name in ("bf16", "f16", "byte")
    },
    "overheads.kernel_call_ns": ((CALLS[0], 2), (CALLS[1], -1)),
    "overheads.fork_join_ns": ((TWO, 1),),
    "overheads.further_thread_ns": ((ALL, 1), (TWO, -1)),
}
_LEAST = 0.05  # of a loop's time, what is left of it when the rest is subtracted


def measured_rates(least: Mapping[str, float], cores: int) -> dict[str, float]:
    """By name, the rates that these loops give. least: nanoseconds of loops. cores: threads of the parallel ones, more than two
    where `ALL` is among them."""
    ghz = 1 / least["clock_ghz"]
    found = dict[str, float]()
    for name in names():
        parts = COMBINED.get(name, ((name, 1.0),))
        if all(loop in least for loop, _ in parts):
            ns = max(sum(factor * least[loop] for loop, factor in parts), _LEAST * least[parts[0][0]])
            found[name] = _rate(name, ns / (cores - 2) if ALL in dict(parts) else ns, ghz)
    return found


def _rate(name: str, ns: float, ghz: float) -> float:
    if name.endswith(("_per_ns", "_ghz")):
        return 1 / ns
    if name.endswith("_per_cycle"):
        return 1 / (ns * ghz)
    return ns * ghz if name.endswith("_cycles") else ns


def datapath_bits(least: Mapping[str, float], vector_bits: int) -> int:
    """Of vectors that take one pass through the core: half of a vector takes as long as a whole one, or half as long."""
    takes_two = least[HALF] < 0.75 * least[_SIMPLE]
    return vector_bits // 2 if takes_two and vector_bits > 128 else vector_bits
