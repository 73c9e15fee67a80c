"""Files of machine tables: what one file says, and which files a machine's values come from.

[machine]    title, provenance; base: the file whose values hold where this one has none; level: the ISA level whose vectors the rates
             are of; cores: those that the all_* rates are of; datapath_bits: of vectors that take one pass through the core
[sources]    where rates come from, each in a sentence, under a short name
[rates.*]    NAME = { value = NUMBER, source = "SHORT NAME" }, the names of rates.py
[NAME]       value, unit, why and source of a threshold, the fields of MachineTable (table.py)
[[schedules]] a schedule for a nest that the cost gets wrong, with its measurement: the fields of ScheduleRow. Rows of a base do not hold:
             they correct the cost by its rates, not by these
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from benchgraph.core.errors import ParseError, did_you_mean
from benchgraph.core.files import need_no_device
from benchgraph.core.isa import ISAS
from benchgraph.machine.rates import names

FOLDER = Path(__file__).parent / "tables"
GENERIC = "generic"
SUFFIX = ".toml"
_TEXTS, _NUMBERS = ("title", "provenance", "base", "level"), ("cores", "datapath_bits")
_AGAIN = "write it anew with `benchgraph calibrate -o FILE`"
LEAST_RATE, MOST_RATE, MOST_NATURAL = 1e-6, 1e12, 1 << 20  # beyond what any machine does
LONGEST_BITS = 64  # of whole numbers that errors show


@dataclass(frozen=True)
class ScheduleRow:
    """A nest and its schedule as text, for so many threads. case: words that select a case which has the nest. ratio: how many times as
    long the schedule of least cost took, as `benchgraph tune --threads=THREADS CASE` measured. source: a short name of [sources]."""

    threads: int
    nest: str
    schedule: str
    case: str
    ratio: float
    source: str


@dataclass(frozen=True)
class TableFile:
    """What one file says. name: of a built-in table, or the path of another file; it is what messages name. cores, datapath_bits: 0 where
    it does not say. rates: value and source by name. thresholds: entries by name. schedules: in place of those of least cost. digest: of
    the text.
    """

    name: str
    title: str
    provenance: str
    base: str
    level: str
    cores: int
    datapath_bits: int
    rates: Mapping[str, tuple[float, str]]
    thresholds: Mapping[str, Mapping[str, Any]]
    schedules: tuple[ScheduleRow, ...]
    digest: str


def built_in() -> tuple[str, ...]:
    """Names of the built-in tables."""
    return tuple(sorted(path.stem for path in FOLDER.glob(f"*{SUFFIX}")))


def is_file(name: str) -> bool:
    """Whether a table's name is the path of a file, and not the name of a built-in one."""
    return name.endswith(SUFFIX) or "/" in name


def path_of(name: str) -> Path:
    built_in_path = FOLDER / f"{name}{SUFFIX}"
    return built_in_path if not is_file(name) and built_in_path.exists() else Path(name)


def lineage(name: str) -> tuple[TableFile, ...]:
    """The file, after those that it is based on. Raises ParseError for files that are not there, are broken or name each other as base."""
    found = [read(name)]
    while base := found[-1].base:
        if base in (f.name for f in found):
            raise ParseError(f"base {base!r} leads back to this table", where=f"{found[-1].name}: [machine]", fix="name another one")
        if is_file(base) or base not in built_in():
            fix = did_you_mean(base, built_in()) or f"there are {', '.join(built_in())}"
            raise ParseError(f"no built-in table {base!r} to be based on", where=f"{found[-1].name}: [machine]", fix=fix)
        found.append(read(base))
    return tuple(reversed(found))


def chain(name: str, level: str) -> tuple[TableFile, ...]:
    """The files of a machine, later ones override earlier ones: those of the ISA level that its rates are of, then its own. name: '' for a
    machine that is not known, which is the ISA level's. Raises ParseError.
    """
    own = lineage(name) if name else ()
    native = next((f.level for f in reversed(own) if f.level), level)
    if native not in ISAS:
        fix = did_you_mean(native, ISAS) or f"there are {', '.join(ISAS)}"
        raise ParseError(f"no ISA level {native!r}", where=f"{name}: [machine]", fix=fix)
    return tuple({f.name: f for f in (*lineage(native), *own)}.values())


@cache
def read(name: str) -> TableFile:
    """Raises ParseError, which names the file, the place in it and the remedy. A process reads each file once."""
    path = path_of(name)
    try:
        need_no_device(path)
        text = path.read_text(encoding="utf-8")
        said = tomllib.loads(text)
    except (ValueError, RecursionError) as bad:
        raise ParseError(f"is no machine table: {bad}", where=name, fix=_AGAIN) from bad
    except OSError as bad:
        fix = did_you_mean(name, built_in()) or f"name a file that `benchgraph calibrate` wrote, or one of {', '.join(built_in())}"
        raise ParseError(f"cannot read the machine table: {bad.strerror}", where=name, fix=fix) from bad
    machine = _table(name, said, "machine")
    if other := next((key for key in machine if key not in (*_TEXTS, *_NUMBERS)), ""):
        raise ParseError(f"no key {other!r}", where=f"{name}: [machine]", fix=did_you_mean(other, (*_TEXTS, *_NUMBERS)) or "leave it out")
    title, provenance, base, level = (_text(f"{name}: [machine]", key, machine.get(key, "")) for key in _TEXTS)
    cores, datapath_bits = (_natural(f"{name}: [machine]", key, machine[key]) if key in machine else 0 for key in _NUMBERS)
    sources, rows = _table(name, said, "sources"), said.get("schedules", [])
    rates = dict(_rates(name, _table(name, said, "rates"), sources))
    listed = enumerate(rows if isinstance(rows, list) else [rows], 1)
    schedules = tuple(_schedule(f"{name}: [[schedules]] row {number}", row, sources) for number, row in listed)
    thresholds = {key: entry for key, entry in said.items() if key not in ("machine", "sources", "rates", "schedules")}
    digest = sha256(text.encode()).hexdigest()
    return TableFile(name, title, provenance, base, level, cores, datapath_bits, rates, thresholds, schedules, digest)


def _table(name: str, said: Mapping[str, Any], key: str) -> dict[str, Any]:
    found = said.get(key, {})
    if not isinstance(found, dict):
        raise ParseError(f"'{key}' is no table", where=name, fix=f"write [{key}]")
    return found


def _text(where: str, key: str, value: object) -> str:
    if not isinstance(value, str):
        raise ParseError(f"{key} is {value!r}, not a text", where=where, fix=f'write {key} = "..."')
    return value


def _natural(where: str, key: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= MOST_NATURAL:
        what = f"{key} is {shown(value)}, not a positive whole number up to {MOST_NATURAL}"
        raise ParseError(what, where=where, fix=f"write {key} = 8, for instance")
    return value


def _rates(name: str, group: Mapping[str, Any], sources: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, tuple[float, str]]]:
    known = list(names())
    for key, entry in group.items():
        rate = f"{prefix}{key}"
        where = f"{name}: [rates] {rate}"
        if rate in known:
            yield rate, _rate(where, entry, sources, '{ value = 1.0, source = "..." }', 1.0 if rate.endswith("_share") else MOST_RATE)
        elif isinstance(entry, dict) and any(other.startswith(f"{rate}.") for other in known):
            yield from _rates(name, entry, sources, f"{rate}.")
        else:
            raise ParseError("no such rate", where=where, fix=did_you_mean(rate, known) or "machine/rates.py lists them")


def _schedule(where: str, said: object, sources: Mapping[str, Any]) -> ScheduleRow:
    row, wanted = said if isinstance(said, dict) else {}, [f.name for f in fields(ScheduleRow)]
    if missing := [key for key in wanted if key not in row]:
        raise ParseError(f"has no {', '.join(missing)}", where=where, fix=f"a row has {', '.join(wanted)}")
    if other := next((key for key in row if key not in wanted), ""):
        raise ParseError(f"no key {other!r}", where=where, fix=did_you_mean(other, wanted) or "leave it out")
    nest, schedule, case = (_text(where, key, row[key]) for key in ("nest", "schedule", "case"))
    ratio, source = _rate(f"{where} '{nest}'", {"value": row["ratio"], "source": row["source"]}, sources, 'ratio = 1.2, source = "..."')
    return ScheduleRow(_natural(f"{where} '{nest}'", "threads", row["threads"]), nest, schedule, case, ratio, source)


def _rate(where: str, entry: object, sources: Mapping[str, Any], example: str, most: float = MOST_RATE) -> tuple[float, str]:
    """A positive number that some machine can have, and the sentence of its source. example: how an entry is written."""
    said = entry if isinstance(entry, dict) else {}
    value, source = said.get("value"), said.get("source")
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ParseError("has no number as value", where=where, fix=f"write {example}")
    if not LEAST_RATE <= value <= most:
        fix = f"give a number from {LEAST_RATE:g} to {most:g}, or {_AGAIN}"
        raise ParseError(f"is {shown(value)}: no machine does so", where=where, fix=fix)
    if not isinstance(source, str) or not isinstance(sources.get(source), str):
        what = f"source {source!r} is not in [sources]" if source is not None else "has no source"
        raise ParseError(what, where=where, fix="say there where the value comes from, in a sentence")
    return float(value), str(sources[source])


def shown(value: object) -> str:
    """A value of a file, cut where it is long: Python does not even print whole numbers of some thousand digits."""
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > LONGEST_BITS:
        return "a whole number of many digits"
    return repr(value)
