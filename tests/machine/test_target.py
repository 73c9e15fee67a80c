"""Instruction set levels: what the CPU has, what is refused, and what follows a lower one."""

from __future__ import annotations

import re

import pytest
from click.testing import CliRunner

from benchgraph.cli import main
from benchgraph.core.config import Config, override
from benchgraph.core.dtypes import DType
from benchgraph.core.errors import Unimplemented
from benchgraph.core.isa import ISA_CHOICES, ISAS
from benchgraph.machine import target
from benchgraph.machine.table import table
from benchgraph.machine.target import current, host, missing

SKYLAKE = {"avx2", "fma", "avx512f", "avx512bw", "avx512vl", "avx512dq"}  # as Linux spells them


@pytest.fixture
def cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine whose CPU is a Skylake server."""
    monkeypatch.setattr(target, "_cpu_flags", lambda: frozenset(SKYLAKE))
    monkeypatch.setattr(target, "host", host.__wrapped__)


@pytest.mark.parametrize(
    ("flags", "best"),
    [
        (set(), "portable"),
        ({"avx2"}, "portable"),
        ({"avx2", "fma"}, "avx2"),
        ({"avx2", "fma", "avx_vnni"}, "avx2_vnni"),
        (SKYLAKE - {"avx512dq"}, "avx2"),
        (SKYLAKE, "avx512_core"),
        (SKYLAKE | {"avx512_vnni"}, "avx512_core_vnni"),
        (SKYLAKE | {"avx512_bf16"}, "avx512_core"),
        (SKYLAKE | {"avx512_vnni", "avx512_bf16", "avx_vnni"}, "avx512_core_bf16"),
    ],
)
def test_the_host_is_at_the_highest_level_whose_features_the_cpu_has(flags: set[str], best: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target, "_cpu_flags", lambda: frozenset(flags))
    assert host.__wrapped__().isa.name == best


@pytest.mark.usefixtures("cpu")
def test_a_lower_level_takes_its_features_away_and_a_higher_one_is_refused() -> None:
    with override(isa="avx2"):
        assert (current().isa.name, current().isa.vector_bits, current().isa.has_vnni) == ("avx2", 256, False)
    lacking = "BENCHGRAPH_ISA=avx512_core_bf16: this .* CPU lacks avx512_vnni, avx512_bf16; the highest it has is avx512_core: choose that"
    with override(isa="avx512_core_bf16"), pytest.raises(Unimplemented, match=lacking):
        current()


@pytest.mark.parametrize(
    ("isa", "bits", "vnni", "bf16"),
    [
        ("avx512_core_bf16", 512, True, True),
        ("avx512_core_vnni", 512, True, False),
        ("avx512_core", 512, False, False),
        ("avx2_vnni", 256, True, False),
        ("avx2", 256, False, False),
        ("portable", 128, False, False),
    ],
)
def test_what_each_level_answers(isa: str, bits: int, vnni: bool, bf16: bool) -> None:
    assert (ISAS[isa].vector_bits, ISAS[isa].has_vnni, ISAS[isa].has_bf16) == (bits, vnni, bf16)


def test_no_level_uses_what_it_must_do_without() -> None:
    assert all(not set(isa.needs) & set(isa.without) for isa in ISAS.values())
    assert Config().isa in ISA_CHOICES


@pytest.mark.usefixtures("cpu")
@pytest.mark.parametrize("words", [["--isa=avx512_core_bf16"], ["--isa=avx2,avx512_core_bf16"]])
def test_a_command_line_for_a_better_cpu_runs_no_case(words: list[str]) -> None:
    result = CliRunner().invoke(main, ["--graph", *words, "--case=mlp.json"])
    assert result.exit_code == 2
    told = r"benchgraph: --isa=avx512_core_bf16: this \w+ CPU lacks avx512_vnni, avx512_bf16; the highest it has is avx512_core: "
    assert re.fullmatch(told + r"choose that, a lower one, or auto\n", result.output)


@pytest.mark.usefixtures("cpu")
def test_a_variable_for_a_better_cpu_is_named() -> None:
    with override(isa="avx512_core_vnni"):
        result = CliRunner().invoke(main, ["--graph", "--case=mlp.json"])
    assert (result.exit_code, result.output.split(":")[1]) == (2, " BENCHGRAPH_ISA=avx512_core_vnni")


def test_cases_of_a_better_cpu_can_still_be_listed() -> None:
    best = next(iter(ISAS))
    assert CliRunner().invoke(main, ["--graph", "--mode=L", f"--isa={best}", "--case=mlp.json"]).exit_code == 0


def test_a_host_lacks_nothing_of_its_own_level() -> None:
    assert missing(host().isa) == ()


@pytest.mark.parametrize(("vendor", "keeps_up"), [("AuthenticAMD", True), ("GenuineIntel", False), (None, False)])
def test_whose_cores_keep_up(vendor: str | None, keeps_up: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target, "cpu_info", lambda: {} if vendor is None else {"vendor_id": vendor})
    assert table(host.__wrapped__()).l2_loads_keep_up == keeps_up


@pytest.mark.parametrize(
    ("info", "one_stream"),
    [
        ({"vendor_id": "AuthenticAMD", "cpu family": "26"}, True),
        ({"vendor_id": "AuthenticAMD", "cpu family": "25"}, False),
        ({"vendor_id": "GenuineIntel", "cpu family": "26"}, False),
        ({}, False),
    ],
)
def test_to_whose_cores_one_stream_comes_as_fast(info: dict[str, str], one_stream: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target, "cpu_info", lambda: info)
    assert table(host.__wrapped__()).one_stream_is_fast == one_stream


@pytest.mark.parametrize(
    ("vendor", "isa", "pays"),
    [
        ("AuthenticAMD", "avx2", True),
        ("GenuineIntel", "avx2", False),
        (None, "avx512_core", False),
        ("GenuineIntel", "portable", True),  # f32 has no fma either
        ("AuthenticAMD", "avx2_vnni", False),  # one instruction does it all
    ],
)
def test_where_words_in_pairs_stand_for_bytes(vendor: str | None, isa: str, pays: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target, "cpu_info", lambda: {} if vendor is None else {"vendor_id": vendor})
    monkeypatch.setattr(target, "missing", lambda _: ())
    monkeypatch.setattr(target, "host", host.__wrapped__)
    with override(isa=isa):
        assert current().emulated == (frozenset({DType.s16}) if pays else frozenset())
        assert current().multiplies(DType.u8) == ISAS[isa].has_vnni
