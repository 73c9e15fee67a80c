"""The machine tables: complete, with a source for every value, and read by vendor, family and ISA level."""

from __future__ import annotations

from dataclasses import asdict, fields
from pathlib import Path

import pytest

from benchgraph.machine import table as module
from benchgraph.machine.table import FOLDER, GENERIC, MachineTable, entries, table
from benchgraph.machine.target import ISAS, Target

DOCS = Path(__file__).parents[2]
FILES = sorted(path.stem for path in FOLDER.glob("*.toml"))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of tables that begins with the generic one."""
    (tmp_path / f"{GENERIC}.toml").write_text((FOLDER / f"{GENERIC}.toml").read_text())
    monkeypatch.setattr(module, "FOLDER", tmp_path)
    monkeypatch.setattr(module, "_of", module._of.__wrapped__)
    return tmp_path


def entry(name: str, value: object) -> str:
    return f'[{name}]\nvalue = {value}\nunit = "ns"\nwhy = "it is so"\nsource = "here"\n'


@pytest.mark.parametrize("file", FILES)
def test_a_source_is_a_section_of_a_page_that_exists(file: str) -> None:
    for name, found in entries(file).items():
        if found["source"].startswith("docs/"):
            page, section = found["source"].split(", ", 1)
            assert f"## {section}\n" in (DOCS / page).read_text(), name


def test_a_target_has_the_table_of_its_level() -> None:
    for isa in ISAS.values():
        values = asdict(table(Target(isa, 1 << 15, 1 << 20, 1)))
        assert values == {name: tuple(v) if isinstance(v := found["value"], list) else v for name, found in entries(isa.name).items()}
        assert list(values) == [f.name for f in fields(MachineTable)]


def test_every_file_is_the_table_of_a_level_or_a_vendor() -> None:
    vendors = {stem.partition("-")[0] for stem in FILES} - {GENERIC, *ISAS}
    assert vendors == {"AuthenticAMD"}
    assert {path.suffix for path in FOLDER.glob("*")} == {".toml"}


def test_a_level_overrides_a_family_and_a_family_its_vendor(folder: Path) -> None:
    for number, file in enumerate(("Vendor", "Vendor-6", "Vendor-15", "avx2"), start=1):
        (folder / f"{file}.toml").write_text(entry("fork_join_ns", float(number)))

    def value(level: str, vendor: str = "Vendor", family: int = 0) -> float:
        return table(Target(ISAS[level], 1 << 15, 1 << 20, 1, vendor=vendor, family=family)).fork_join_ns

    assert [value("avx512_core", family=family) for family in (5, 6, 14, 15, 16)] == [1.0, 2.0, 2.0, 3.0, 3.0]
    assert value("avx2", family=15) == 4.0
    assert value("avx512_core", "Other") == entries(GENERIC)["fork_join_ns"]["value"]


def test_a_level_takes_from_the_generic_table_what_it_does_not_say(folder: Path) -> None:
    (folder / "avx2.toml").write_text(entry("fork_join_ns", 800.0))
    assert entries("avx2") == entries(GENERIC) | {"fork_join_ns": {"value": 800.0, "unit": "ns", "why": "it is so", "source": "here"}}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (entry("fork_join", 1.0), "fork_join is no field"),
        (entry("fork_join_ns", 1), "fork_join_ns needs a value of type float"),
        (entry("fork_join_ns", 1.0).replace("here", ""), "fork_join_ns needs a value of type float, a unit, why it is so, and a source"),
    ],
)
def test_a_table_that_cannot_be_read_is_refused(text: str, message: str, folder: Path) -> None:
    (folder / "avx2.toml").write_text(text)
    with pytest.raises(ValueError, match=message):
        entries("avx2")


def test_a_table_without_a_value_is_refused(folder: Path) -> None:
    (folder / f"{GENERIC}.toml").write_text(entry("fork_join_ns", 1.0))
    with pytest.raises(ValueError, match="is missing"):
        entries(GENERIC)
