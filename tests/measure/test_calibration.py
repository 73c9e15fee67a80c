"""`benchgraph calibrate`: what its loops hold, and what becomes of their times; no test asserts on a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import count, repeat
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from benchgraph.cli import main
from benchgraph.commands import calibrate as command
from benchgraph.core.config import override
from benchgraph.machine.rates import Rates, values
from benchgraph.machine.table import rates
from benchgraph.machine.target import ISAS, Target, host, missing
from benchgraph.measure.calibration import calibrate, memory_loops
from benchgraph.measure.calibration.arithmetic_loops import HALF, MANY, SOME, arithmetic_loops
from benchgraph.measure.calibration.calibrate import Calibrated, calibrated
from benchgraph.measure.calibration.overhead_loops import ALL, CALLS, LONG, SHORT, TWO, overhead_loops
from benchgraph.measure.calibration.rates import datapath_bits, measured_rates
from benchgraph.measure.calibration.rounds import LEAST_ROUNDS, minima
from benchgraph.measure.calibration.timed_loop import TimedLoop
from benchgraph.runtime.memory import aligned

HERE = replace(host(), cores=1)
SMALL = replace(HERE, l1_bytes=4 << 10, l2_bytes=16 << 10)


@dataclass
class Fake:
    """A loop whose samples are given."""

    samples: Iterator[float]
    clock: list[float]
    taken: list[float] = field(default_factory=list)

    def sample(self) -> float:
        self.clock[0] += 1.0
        self.taken.append(next(self.samples))
        return self.taken[-1]


def test_the_least_sample_counts_and_rounds_end_with_the_budget() -> None:
    now = [0.0]
    loops = {"a": Fake((5.0 - i for i in count()), now), "b": Fake((2.0 + i for i in count()), now)}
    least, rounds = minima(loops, 19.0, lambda: now[0])
    assert rounds == 10  # of two seconds each, the last begins before the budget is spent
    assert least == {"a": -4.0, "b": 2.0}


def test_there_are_some_rounds_however_long_they_take() -> None:
    now = [0.0]
    loop = Fake((1.0 for _ in count()), now)
    assert minima({"a": loop}, 0.0, lambda: now[0])[1] == LEAST_ROUNDS == len(loop.taken)


def times_of(r: Rates, cores: int) -> dict[str, float]:
    """The nanoseconds of loops on a machine of these rates."""
    ghz, rate = r.clock_ghz, values(r)
    found = dict[str, float]()
    for name, value in rate.items():
        if name.endswith(("_per_ns", "_ghz")):
            found[name] = 1 / value
        elif name.endswith("_per_cycle"):
            found[name] = 1 / (value * ghz)
        else:
            found[name] = value / ghz if name.endswith("_cycles") else value
    simple = found["vector.simple_cycles"]
    found["vector.exp_cycles"] += simple
    for name in ("bf16", "f16", "byte"):
        found[f"vector.to_{name}_cycles"] += found[f"vector.from_{name}_cycles"] + simple
        found[f"vector.from_{name}_cycles"] += 2 * simple
    call, loop_ns = found.pop("overheads.kernel_call_ns"), 0.5
    found |= {CALLS[0]: call + SHORT * loop_ns, CALLS[1]: call + LONG * loop_ns}
    fork, further = found.pop("overheads.fork_join_ns"), found.pop("overheads.further_thread_ns")
    return found | {TWO: fork, ALL: fork + (cores - 2) * further}


@pytest.mark.parametrize("machine", ["zen4", "granite_rapids"])
def test_times_of_loops_become_the_rates_of_the_machine(machine: str) -> None:
    table = rates(Target(ISAS["avx512_core_amx" if machine == "granite_rapids" else "avx512_core_bf16"], 1, 1, 1, machine=machine))
    assert measured_rates(times_of(table, 8), 8) == pytest.approx(values(table))


def test_what_no_loop_measures_is_no_rate() -> None:
    least = times_of(rates(HERE), 2)
    del least[ALL], least["written.line_ns"]
    found = measured_rates(least, 2)
    assert set(values(rates(HERE))) - set(found) == {"overheads.further_thread_ns", "written.line_ns"}


def test_a_rate_stays_positive_where_what_is_subtracted_takes_longer() -> None:
    least = times_of(rates(HERE), 2) | {"vector.from_bf16_cycles": 1e-3}
    del least[ALL]
    assert measured_rates(least, 2)["vector.from_bf16_cycles"] > 0


@pytest.mark.parametrize(("half", "bits"), [(1.0, 512), (0.9, 512), (0.5, 256)])
def test_half_a_vector_tells_the_width_of_the_datapath(half: float, bits: int) -> None:
    assert datapath_bits({HALF: half, "vector.simple_cycles": 1.0}, 512) == bits


@pytest.mark.parametrize("name", ISAS)
def test_loops_give_every_rate_of_a_level(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if missing(ISAS[name]):
        pytest.skip(f"this processor has no {name}")
    monkeypatch.setattr(memory_loops, "buffer_bytes", lambda: 1 << 20)
    target = replace(SMALL, isa=ISAS[name])
    sources = dict(calibrate.loops(target))
    assert all(sources[loop].sample() > 0 for loop in sources)
    lacking = {rate for rate in values(rates(target)) if ".all_" in rate or rate.startswith(("kernels.", "windows."))}
    lacking |= {"written.latency_ns", "written.line_ns", "overheads.fork_join_ns", "overheads.further_thread_ns"}
    assert set(values(rates(target))) - set(measured_rates(dict.fromkeys(sources, 1.0), 1)) == lacking


INSTRUCTIONS = {  # of a loop on registers: how often each begins a line of the assembly, with vectors of 16 lanes
    "products.f32.macs_per_cycle": ("vfmadd", MANY),
    "products.f32.latency_cycles": ("vfmadd", 1),
    "vector.simple_cycles": ("vaddps", MANY),
    HALF: ("vaddps", MANY),
    "vector.latency_cycles": ("vaddps", 1),
    "vector.divide_cycles": ("vdivps", SOME),
    "vector.square_root_cycles": ("vsqrtps", SOME),
    "vector.gather_cycles": ("vpgatherdd", SOME),
}


def test_chains_stand_side_by_side() -> None:
    if missing(ISAS["avx512_core"]):
        pytest.skip("this processor has no avx512_core")
    loops = dict(arithmetic_loops(replace(HERE, isa=ISAS["avx512_core"])))
    for name, (instruction, wanted) in INSTRUCTIONS.items():
        lines = [line.strip() for line in loops[name].code.assembly().splitlines()]
        assert sum(line.startswith(instruction) for line in lines) == wanted, name


def test_every_byte_is_written() -> None:
    for is_non_temporal in (False, True):
        buffer = aligned(1 << 13)
        buffer.fill(7)
        made = memory_loops._stores(HERE, 1, buffer, buffer.nbytes, is_non_temporal=is_non_temporal)
        made.once()
        assert not buffer.any()


@pytest.mark.parametrize("lines", [1, 2, 7, 64])
def test_lines_are_read_in_one_circle(lines: int) -> None:
    buffer = aligned(64 * 64)
    first = memory_loops._chased(buffer, lines)
    words, seen, at = buffer.view(np.int64), set[int](), first
    while at not in seen:
        seen.add(at)
        at = int(words[(at - buffer.ctypes.data) // 8])
    assert (at, len(seen)) == (first, lines)


def test_two_threads_read_what_the_other_one_has_written() -> None:
    two = dict(memory_loops._written(replace(HERE, cores=2)))
    assert all(loop.sample() > 0 for loop in two.values())


def test_parallel_loops_are_measured_with_two_threads_and_with_all() -> None:
    assert [name for name, _ in overhead_loops(replace(HERE, cores=1))][-1] == CALLS[1]
    loops = dict(overhead_loops(replace(HERE, cores=3)))
    assert {TWO, ALL} < set(loops)
    assert loops[ALL].sample() > 0


def test_a_loop_warms_up_before_each_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    called = list[int]()
    loop = TimedLoop(lambda entry: None, HERE, 1, warm_up=17)
    loop._run, loop._iterations = (lambda iterations, *_: called.append(iterations)), 5
    loop.sample()
    assert called == [17, 5]


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> Calibrated:
    """A machine that is its built-in table, but for memory that is half as fast to come."""
    with override(threads=2):
        target = replace(command.current(), machine=host().machine)
    table = rates(target)
    now = [0.0]
    times = times_of(table.at_cores(2), 2) | {HALF: times_of(table, 2)["vector.simple_cycles"]}
    times["dram.latency_ns"] *= 2
    del times[ALL]
    made = calibrated(target, {name: Fake(repeat(ns), now) for name, ns in times.items()}, 1.0, lambda: now[0])
    monkeypatch.setattr(command, "_measured", lambda *_: made)
    monkeypatch.setenv("BENCHGRAPH_THREADS", "2")
    return made


def invoke(*words: str) -> tuple[int, str]:
    with override(threads=2):
        result = CliRunner().invoke(main, ["calibrate", *words])
    return result.exit_code, result.output


@pytest.mark.usefixtures("found")
def test_the_report_says_how_far_the_built_in_table_is_off() -> None:
    code, output = invoke()
    lines = output.splitlines()
    assert code == 0
    assert max(map(len, lines)) <= 80
    (row,) = (line.split() for line in lines if line.startswith("dram.latency_ns"))
    assert row[3:] == ["2.00", "*"]
    assert all(line.split()[3:] == ["1.00"] for line in lines[2:] if line[:1].islower() and line.count(".") > 2 and row[0] not in line)
    assert "  overheads.further_thread_ns" in lines
    assert " ".join(lines).endswith("rates, at most 2.00 (dram.latency_ns).")


def test_what_is_written_is_read_back(found: Calibrated, tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    code, output = invoke("-o", str(file))
    assert code == 0
    assert output.endswith(f"BENCHGRAPH_MACHINE_TABLE={file} makes the compiler use the new table.\n")
    with override(threads=2, machine_table=str(file)):
        read = rates(command.current())
    assert {name: values(read)[name] for name in found.rates} == pytest.approx(found.rates, rel=1e-3)
    assert (read.name, read.cores) == (str(file), 2)
    assert read.overheads.further_thread_ns == rates(host()).overheads.further_thread_ns
    assert invoke("-o", "-")[1] == file.read_text()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["4"], "calibrate: '4' is none of its words; write 'benchgraph calibrate [-o FILE]'"),
        (["-o"], "calibrate: -o: a value is missing; write '-o VALUE'"),
        (["--seconds=soon"], "calibrate: --seconds: bad value 'soon'; give an integer from 1 on"),
        (["--output=/dev/null/x"], "calibrate: --output=/dev/null/x: cannot write the file: Not a directory; name another one"),
    ],
)
def test_words_that_cannot_be_understood(words: list[str], message: str) -> None:
    code, output = invoke(*words)
    assert code == 2
    assert output.startswith(f"benchgraph: {message}")


def test_a_variable_that_names_no_table_is_refused() -> None:
    with override(machine_table="zen44"):
        result = CliRunner().invoke(main, ["--graph", "--case=mlp.json"])
    said = "benchgraph: BENCHGRAPH_MACHINE_TABLE: zen44: cannot read the machine table: No such file or directory; did you mean 'zen4'?\n"
    assert (result.exit_code, result.output) == (2, said)


@pytest.mark.parametrize(
    ("threads", "caches", "mib"),
    [
        (1, 1, 4),  # four times L2
        (2, 2, 8),
        (16, 2, 32),  # half of both last-level caches
        (96, 2, 144),  # more than L2 of each
    ],
)
def test_bytes_of_l3_are_more_than_those_of_l2(threads: int, caches: int, mib: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_loops, "last_level_bytes", lambda: 32 << 20)
    monkeypatch.setattr(memory_loops, "last_level_caches", lambda: caches)
    target = replace(HERE, l1_bytes=32 << 10, l2_bytes=1 << 20)
    assert memory_loops.level_bytes("l3", target, threads, 1 << 30) == mib << 20
    assert memory_loops.level_bytes("l2", target, threads, 1 << 30) == threads << 19
    assert memory_loops.level_bytes("dram", target, threads, 1 << 30) == 1 << 30


def test_memory_is_four_times_all_last_level_caches_if_that_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_loops, "memory_bytes", lambda: 128 << 20)
    monkeypatch.setattr(memory_loops, "last_level_caches", lambda: 2)
    for free, wanted in ((1 << 30, 256 << 20), (1 << 28, 1 << 27)):
        monkeypatch.setattr(memory_loops, "free_bytes", lambda free=free: free)
        assert memory_loops.buffer_bytes() == wanted


def test_too_little_memory_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_loops, "buffer_bytes", lambda: 1 << 60)
    code, output = invoke("--seconds=1")
    assert (code, output) == (1, f"benchgraph: calibrate: cannot allocate {(1 << 60) + (1 << 20)} bytes; end other programs\n")
