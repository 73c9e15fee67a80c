"""The machine tables: complete, with a source for every value, plausible, and read by machine and ISA level."""

from __future__ import annotations

from dataclasses import asdict, fields, replace
from pathlib import Path

import pytest

from benchgraph.core.errors import ParseError
from benchgraph.machine import table as module
from benchgraph.machine import table_file
from benchgraph.machine.rates import LEVELS, Rates, missing, names, values
from benchgraph.machine.table import MachineTable, entries, rates, table
from benchgraph.machine.table_file import FOLDER, GENERIC, built_in, chain, read
from benchgraph.machine.target import ISAS, Target

DOCS = Path(__file__).parents[2]
LEVEL_TABLES = {GENERIC, *ISAS}
MACHINES = sorted(set(built_in()) - LEVEL_TABLES)


def target(level: str = "avx512_core", machine: str = "") -> Target:
    return Target(ISAS[level], 1 << 15, 1 << 20, 1, machine=machine)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of built-in tables that begins with the generic ones."""
    for name in LEVEL_TABLES:
        (tmp_path / f"{name}.toml").write_text((FOLDER / f"{name}.toml").read_text())
    monkeypatch.setattr(table_file, "FOLDER", tmp_path)
    monkeypatch.setattr(table_file, "read", read.__wrapped__)
    monkeypatch.setattr(module, "_thresholds", module._thresholds.__wrapped__)
    monkeypatch.setattr(module, "_rates", module._rates.__wrapped__)
    return tmp_path


def entry(name: str, value: object) -> str:
    return f'[{name}]\nvalue = {value}\nunit = "ns"\nwhy = "it is so"\nsource = "here"\n'


def rate(name: str, value: object, source: str = "here") -> str:
    return f'[sources]\nhere = "measured here"\n[rates]\n{name} = {{ value = {value}, source = "{source}" }}\n'


def based_on(base: str, level: str = "") -> str:
    return f'[machine]\ntitle = "a title"\nprovenance = "a test"\nbase = "{base}"\n' + (f'level = "{level}"\n' if level else "")


@pytest.mark.parametrize("machine", ["", *MACHINES])
def test_a_source_is_a_section_of_a_page_that_exists(machine: str) -> None:
    sources = {name: found["source"] for name, found in entries(machine, "avx2").items()}
    sources |= {name: source for file in chain(machine, "avx2") for name, (_, source) in file.rates.items()}
    for name, source in sources.items():
        if source.startswith("docs/"):
            page, section = source.split(":")[0].split(", ", 1)
            assert f"## {section}\n" in (DOCS / page).read_text(), name


def test_a_target_has_the_thresholds_of_its_level() -> None:
    for isa in ISAS.values():
        found = asdict(table(target(isa.name)))
        assert found == {name: tuple(v) if isinstance(v := e["value"], list) else v for name, e in entries("", isa.name).items()}
        assert list(found) == [f.name for f in fields(MachineTable)]


@pytest.mark.parametrize("level", ISAS)
@pytest.mark.parametrize("machine", ["", *MACHINES])
def test_rates_of_every_machine_are_complete_at_every_level(machine: str, level: str) -> None:
    found, isa = rates(target(level, machine)), ISAS[level]
    assert missing(values(found)) == []
    assert found.level == level
    assert (found.products.u8s8 is not None, found.products.bf16 is not None, found.tiles is not None) == (
        isa.has_vnni,
        isa.has_bf16,
        isa.has_amx,
    )


@pytest.mark.parametrize("machine", sorted({*ISAS, *MACHINES} - {"amd"}))
def test_a_table_says_what_its_rates_are_of(machine: str) -> None:
    file = read(machine)
    assert file.title
    assert file.provenance
    assert machine in ISAS or file.level in ISAS
    assert all(source for _, source in file.rates.values())


@pytest.mark.parametrize("machine", sorted(set(MACHINES) - {"amd"}))
def test_a_microarchitecture_has_all_rates_of_its_level(machine: str) -> None:
    """But for those that no loop measures."""
    file = read(machine)
    assert set(file.rates) == {name for name in values(rates(target(file.level, machine))) if not name.startswith(("kernels.", "windows."))}


@pytest.mark.parametrize(
    ("machine", "level"), [(m, level) for m in ("", *MACHINES) for level in ISAS if m != "aarch64" or level == "portable"]
)
def test_rates_are_plausible(machine: str, level: str) -> None:
    if machine == "aarch64" and level != "portable":
        pytest.skip("no core of AArch64 has a level of x86")
    _plausible(rates(target(level, machine)), ISAS[level].lanes)


def _plausible(r: Rates, lanes: int) -> None:
    """Laws that no machine breaks."""
    cores = r.cores
    reads, writes = ([f(level) for level in LEVELS] for f in (r.read_bytes_per_ns, r.write_bytes_per_ns))
    assert reads == sorted(reads, reverse=True), "farther memory is slower"
    assert writes == sorted(writes, reverse=True)
    together = [r.read_bytes_per_ns(level, cores) for level in LEVELS]
    assert together == sorted(together, reverse=True)
    latencies = [r.latency_ns(level) for level in LEVELS]
    assert latencies == sorted(latencies)
    for memory in (r.l3, r.dram):
        assert memory.read_bytes_per_ns <= memory.all_read_bytes_per_ns <= cores * memory.read_bytes_per_ns
        assert memory.write_bytes_per_ns <= memory.all_write_bytes_per_ns <= cores * memory.write_bytes_per_ns
        assert memory.write_bytes_per_ns <= memory.read_bytes_per_ns
    assert r.dram.write_bytes_per_ns <= r.dram.non_temporal_bytes_per_ns
    assert r.dram.all_non_temporal_bytes_per_ns <= cores * r.dram.non_temporal_bytes_per_ns
    assert r.l1.write_bytes_per_cycle <= r.l1.read_bytes_per_cycle <= 3 * 4 * lanes, "three loads of a vector in a cycle, at most"
    assert r.latency_ns("l3") / 4 < r.written.latency_ns
    assert r.written.line_ns <= r.written.latency_ns
    assert 1 <= r.clock_ghz <= 6
    vector = r.vector
    assert vector.simple_cycles <= vector.latency_cycles
    assert vector.simple_cycles < vector.divide_cycles <= vector.square_root_cycles
    assert vector.exp_cycles >= 8 * vector.simple_cycles
    assert vector.from_byte_cycles <= vector.to_byte_cycles
    assert vector.shuffle_cycles <= vector.transpose_cycles <= vector.gather_cycles
    pairs = [(r.products.f32, r.products.s16), (r.products.f32, r.products.u8s8), (r.products.bf16, r.products.u8s8)]
    pairs += [(r.products.bf16, r.tiles.bf16), (r.tiles.bf16, r.tiles.u8s8)] if r.tiles else []
    for wide, narrow in pairs:
        if wide and narrow:
            assert wide.macs_per_cycle < narrow.macs_per_cycle
    assert r.products.bf16 is None or r.products.f32.macs_per_cycle / 2 < 1.01 * r.products.bf16.macs_per_cycle
    assert lanes / 2 <= r.products.f32.macs_per_cycle <= 4 * lanes
    assert r.overheads.iteration_cycles < r.ns(r.overheads.kernel_call_ns) * r.clock_ghz**2
    assert r.fork_join_ns(1) == 0 < r.fork_join_ns(2) < r.fork_join_ns(cores)


def test_throughputs_of_several_cores_grow_up_to_that_of_all() -> None:
    r = rates(target("avx512_core_bf16", "zen4"))
    assert r.read_bytes_per_ns("l1", 4) == 4 * r.l1.read_bytes_per_cycle * r.clock_ghz
    assert r.read_bytes_per_ns("dram", 2) == 2 * r.dram.read_bytes_per_ns
    assert r.read_bytes_per_ns("dram", 96) == r.dram.all_read_bytes_per_ns
    assert r.non_temporal_bytes_per_ns(1000) == r.dram.all_non_temporal_bytes_per_ns


def test_accumulators_hide_the_latency_of_a_product() -> None:
    assert rates(target("avx512_core", "cascade_lake")).products.f32.accumulators(16) == 8


def test_a_core_that_takes_two_passes_for_a_vector_is_as_fast_with_half_of_it() -> None:
    whole, half = (rates(target(level, "zen4")) for level in ("avx512_core_bf16", "avx2"))
    assert half.products.f32.macs_per_cycle == whole.products.f32.macs_per_cycle
    assert half.l1.read_bytes_per_cycle == whole.l1.read_bytes_per_cycle
    assert (half.vector.simple_cycles, whole.vector.simple_cycles) == (0.5, 1)
    assert half.vector.divide_cycles == whole.vector.divide_cycles / 2


def test_a_core_that_takes_one_pass_for_a_vector_loses_half_of_it() -> None:
    whole, half = (rates(target(level, "zen5")) for level in ("avx512_core_bf16", "avx2"))
    assert half.products.f32.macs_per_cycle == whole.products.f32.macs_per_cycle / 2
    assert half.l1.write_bytes_per_cycle == whole.l1.write_bytes_per_cycle / 2
    assert half.vector.simple_cycles == whole.vector.simple_cycles == 0.5
    assert half.vector.to_bf16_cycles > whole.vector.to_bf16_cycles  # several instructions instead of one


def test_vectors_for_few_elements_have_their_rates() -> None:
    t = target("avx512_core_bf16", "zen5")
    whole, half = rates(t), rates(t.narrowed(8))
    assert half.products.f32.macs_per_cycle == whole.products.f32.macs_per_cycle / 2
    assert half.vector == whole.vector


@pytest.mark.parametrize(("machine", "shares"), [("zen4", [0.5, 0.5, 1.0]), ("zen5", [1.0, 1.0, 1.0])])
def test_an_instruction_takes_a_pass_at_least(machine: str, shares: list[float]) -> None:
    assert [rates(target("avx512_core_bf16", machine)).share_of_vector(lanes) for lanes in (4, 8, 16)] == shares


def test_without_fma_a_product_is_two_instructions() -> None:
    r = rates(target("portable", "zen3"))
    assert r.products.f32.macs_per_cycle == 4 / (2 * 0.5)


def test_a_machine_overrides_its_vendor_and_that_its_level(folder: Path) -> None:
    (folder / "avx2.toml").write_text(
        (folder / "avx2.toml").read_text() + entry("shared_block_share", 1.0) + entry("l1_prefetched_share", 1.0)
    )
    (folder / "vendor.toml").write_text(based_on("") + entry("l1_prefetched_share", 2.0) + entry("llc_factor", 2.0))
    (folder / "cpu.toml").write_text(based_on("vendor", "avx2") + entry("llc_factor", 3.0) + rate("clock_ghz", 2.25))
    t = target("avx2", "cpu")
    assert (table(t).shared_block_share, table(t).l1_prefetched_share, table(t).llc_factor) == (1.0, 2.0, 3.0)
    assert table(t).working_set_share == entries("", "avx2")["working_set_share"]["value"]
    assert (rates(t).name, rates(t).provenance, rates(t).clock_ghz) == ("cpu", "a test", 2.25)
    generic = rates(target("avx2"))
    assert replace(rates(t), name=generic.name, provenance=generic.provenance, clock_ghz=generic.clock_ghz) == generic


def test_a_file_of_the_user_is_based_on_a_built_in_table(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(based_on("zen5") + rate("dram.latency_ns", 99))
    t = target("avx512_core_bf16", str(file))
    assert (rates(t).dram.latency_ns, rates(t).l3) == (99.0, rates(target("avx512_core_bf16", "zen5")).l3)
    assert table(t).one_stream_is_fast


def row(**changes: object) -> str:
    """A row of a schedule, whose file has its source."""
    said = {"threads": 2, "nest": "'a'", "schedule": "'order d0'", "case": "'--pool'", "ratio": 1.2, "source": "'here'"} | changes
    return '[sources]\nhere = "measured here"\n[[schedules]]\n' + "".join(f"{key} = {value}\n" for key, value in said.items())


REFUSED = [
    (row(sources="'here'"), r"cpu: \[\[schedules\]\] row 1: no key 'sources'; did you mean 'source'\?"),
    (
        f"{row()}[[schedules]]\nnest = 'b'\nthreads = 2",
        r"cpu: \[\[schedules\]\] row 2: has no schedule, case, ratio, source; a row has threads, nest, schedule, case, ratio, source",
    ),
    (row(nest=1), r"cpu: \[\[schedules\]\] row 1: nest is 1, not a text"),
    (row(threads=-2), r"cpu: \[\[schedules\]\] row 1 'a': threads is -2, not a positive whole number"),
    (row(threads=0), r"cpu: \[\[schedules\]\] row 1 'a': threads is 0, not a positive whole number"),
    (row(ratio="'fast'"), r"cpu: \[\[schedules\]\] row 1 'a': has no number as value; write ratio = 1\.2, source = "),
    (row(source="'there'"), r"cpu: \[\[schedules\]\] row 1 'a': source 'there' is not in \[sources\]"),
    ("schedules = 1", r"cpu: \[\[schedules\]\] row 1: has no threads, nest"),
    ("[machine\n", r"cpu: is no machine table: .* \(at line 1, column 9\); write it anew with `benchgraph calibrate -o FILE`"),
    ("machine = 1", r"cpu: 'machine' is no table; write \[machine\]"),
    ("[machine]\nbass = 'generic'", r"cpu: \[machine\]: no key 'bass'; did you mean 'base'\?"),
    ("[machine]\ncores = -1", r"cpu: \[machine\]: cores is -1, not a positive whole number"),
    ("[machine]\ntitle = 1", r"cpu: \[machine\]: title is 1, not a text"),
    (based_on("avx"), r"cpu: \[machine\]: no built-in table 'avx' to be based on; did you mean 'avx2'\?"),
    (based_on("cpu"), r"cpu: \[machine\]: base 'cpu' leads back to this table; name another one"),
    (based_on("generic", "avx3"), r"cpu: \[machine\]: no ISA level 'avx3'; did you mean 'avx2'\?"),
    (rate("clock_gz", 1.0), r"cpu: \[rates\] clock_gz: no such rate; did you mean 'clock_ghz'\?"),
    (rate("l2.latncy_ns", 1.0), r"cpu: \[rates\] l2\.latncy_ns: no such rate; did you mean 'l2\.latency_ns'\?"),
    ("[rates]\nclock_ghz = 3.0", r"cpu: \[rates\] clock_ghz: has no number as value; write \{ value = 1\.0, source = "),
    (rate("clock_ghz", "true"), r"cpu: \[rates\] clock_ghz: has no number as value"),
    (
        rate("clock_ghz", -3.0),
        r"cpu: \[rates\] clock_ghz: is -3\.0: no machine does so; give a number from 1e-06 to 1e\+12, or write it anew",
    ),
    (rate("clock_ghz", 0), r"cpu: \[rates\] clock_ghz: is 0"),
    (rate("clock_ghz", "nan"), r"cpu: \[rates\] clock_ghz: is nan"),
    (rate("clock_ghz", "inf"), r"cpu: \[rates\] clock_ghz: is inf"),
    (rate("clock_ghz", 5e-324), r"cpu: \[rates\] clock_ghz: is 5e-324: no machine does so; give a number from 1e-06 to 1e\+12"),
    (rate("clock_ghz", 10**400), r"cpu: \[rates\] clock_ghz: is a whole number of many digits: no machine does so"),
    (
        rate("kernels.hidden_share", 1.5),
        r"cpu: \[rates\] kernels\.hidden_share: is 1\.5: no machine does so; give a number from 1e-06 to 1",
    ),
    (
        rate("clock_ghz", 3.0, "there"),
        r"cpu: \[rates\] clock_ghz: source 'there' is not in \[sources\]; say there where the value comes from",
    ),
    (rate("tiles.load_cycles", 8.0), r"cpu: \[rates\] tiles\.bf16\.macs_per_cycle: has no value; base the table on another one, or write"),
    (entry("shared_block_shares", 1.0), r"cpu: \[shared_block_shares\]: no such threshold; did you mean 'shared_block_share'\?"),
    (entry("shared_block_share", 1), r"cpu: \[shared_block_share\]: needs a number with a point as value; write value = 1\.0, for"),
    (entry("shared_block_share", "inf"), r"cpu: \[shared_block_share\]: is inf: no machine needs that; give 0 to 1e\+12"),
    (entry("tasks_per_core", -5), r"cpu: \[tasks_per_core\]: is -5: no machine needs that"),
    (entry("shared_block_share", 1.0).replace("here", ""), r'cpu: \[shared_block_share\]: has no source; write source = "\.\.\."'),
]


@pytest.mark.parametrize(("text", "message"), REFUSED)
def test_a_table_that_cannot_be_read_is_refused(text: str, message: str, folder: Path) -> None:
    (folder / "cpu.toml").write_text(text)
    with pytest.raises(ParseError, match=message):
        _both("cpu")


def _both(machine: str) -> None:
    table(target("avx2", machine))
    rates(target("avx2", machine))


def test_a_table_without_a_value_is_refused(folder: Path) -> None:
    (folder / f"{GENERIC}.toml").write_text(entry("shared_block_share", 1.0))
    with pytest.raises(ParseError, match=r"avx2: \[tasks_per_core\]: is missing; base the table on another one"):
        table(target("avx2"))
    with pytest.raises(ParseError, match=r"avx2: \[rates\] clock_ghz: has no value; base the table on another one"):
        rates(target("avx2"))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("zen44", r"zen44: cannot read the machine table: No such file or directory; did you mean 'zen4'\?"),
        (
            "none/such.toml",
            r"none/such\.toml: cannot read the machine table: .*; name a file that `benchgraph calibrate` wrote, or one of ",
        ),
        ("/dev/null/x", r"cannot read the machine table: Not a directory"),
        ("./", r"cannot read the machine table: Is a directory"),
    ],
)
def test_a_file_that_is_not_there_is_named(name: str, message: str) -> None:
    with pytest.raises(ParseError, match=message):
        _both(name)


def test_names_are_those_of_all_rates() -> None:
    assert set(values(rates(target("avx512_core_amx", "granite_rapids")))) == set(names())
