"""Rows of machine tables: each is a schedule that its nest can have, found by the case that it names, and takes the place of least cost."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from benchgraph.candidates import Candidates, candidates
from benchgraph.core.errors import ParseError
from benchgraph.harness.command_words import select_cases
from benchgraph.machine.table_file import ScheduleRow, built_in, read
from benchgraph.machine.target import ISAS, Target, current
from benchgraph.partition.ir import Policy
from benchgraph.partition.partitioner import partitions
from benchgraph.schedule.tuning import of_table

ROWS = [(machine, row) for machine in built_in() for row in read(machine).schedules]
CASE, NEST = "--matmul 24x13:13x40", "f32:f32 24x13x40 constant"


def target(machine: str, threads: int) -> Target:
    level = read(machine).level or machine
    return replace(current(), isa=ISAS[level], cores=threads, machine=machine)


def nests(case: str, t: Target) -> dict[str, Candidates]:
    graphs = (problem.graph() for problem in select_cases("tune", tuple(shlex.split(case))).problems)
    return {each.nest: each for g in graphs for p in partitions(g, Policy.fused) for each in candidates(p, t)}


@pytest.mark.parametrize(("machine", "row"), ROWS, ids=[f"{machine}: {row.nest}" for machine, row in ROWS])
def test_a_row_says_what_its_case_gets(machine: str, row: ScheduleRow) -> None:
    found = nests(row.case, target(machine, row.threads))
    assert found[row.nest].chosen.schedule == row.schedule
    assert row.ratio >= 1.05, "rows are for what is clearly faster"
    other = nests(row.case, target(machine, row.threads + 1))
    assert found[row.nest].cheapest.schedule != row.schedule
    assert other[row.nest].chosen.by == "the options", "a row holds for its number of threads"


def table(folder: Path, schedule: str) -> str:
    """A table of the user's with a row for one thread."""
    file = folder / "mine.toml"
    row = f'threads = 1\nnest = "{NEST}"\nschedule = "{schedule}"\ncase = "{CASE}"\nratio = 1.2\nsource = "here"\n'
    head = '[machine]\ntitle = "a title"\nbase = "zen4"\nlevel = "avx2"\n[sources]\nhere = "measured here"\n'
    file.write_text(f"{head}[[schedules]]\n{row}")
    return str(file)


def test_a_table_of_the_users_has_rows_of_its_own_and_not_those_of_its_base(tmp_path: Path) -> None:
    schedule = "tile m by 4; tile n by 16; order m.0, n.0; tensorize m.1, n.1, k"
    machine = table(tmp_path, schedule)
    assert [f.schedule for f in of_table(target(machine, 1))] == [schedule]
    assert of_table(target(machine, 2)) == of_table(replace(target(machine, 1), isa=ISAS["avx512_core"])) == ()


def test_the_level_of_rows_may_be_that_of_a_base(tmp_path: Path) -> None:
    """As all rates' is: else such rows would be left out without a word."""
    machine = table(tmp_path, "tile m by 4; tile n by 16; order m.0, n.0; tensorize m.1, n.1, k")
    file = Path(machine)
    file.write_text("".join(line for line in file.read_text().splitlines(keepends=True) if not line.startswith("level")))
    assert len(of_table(replace(target("zen4", 1), machine=machine))) == 1


def test_a_row_that_its_nest_cannot_have_is_named_with_its_table(tmp_path: Path) -> None:
    machine = table(tmp_path, "tile m by 25; tile n by 16; order m.0, n.0; parallel m.0; tensorize m.1, n.1, k")
    said = rf"the machine table {machine}, 1\.20 times .*: '{NEST}': this nest cannot have the schedule 'tile m by 25"
    with pytest.raises(ParseError, match=said):
        nests(CASE, target(machine, 1))


def test_a_row_that_is_no_schedule_is_named_with_its_table(tmp_path: Path) -> None:
    with pytest.raises(ParseError, match=rf"mine\.toml: \[\[schedules\]\] '{NEST}': "):
        of_table(target(table(tmp_path, "tiles m by 4"), 1))
