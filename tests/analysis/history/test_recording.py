"""`benchgraph --history`: the run gets into the database, or its results into a file, whatever goes wrong."""

from __future__ import annotations

import errno
import json
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from benchgraph.analysis.history import database as databases
from benchgraph.analysis.history import recording
from benchgraph.analysis.history.database import Database
from benchgraph.analysis.history.store import append, points, read, runs
from benchgraph.cli import main
from benchgraph.core.config import override
from benchgraph.core.errors import BenchgraphError
from benchgraph.results import growing_report
from benchgraph.results.json_report import parse, render
from benchgraph.results.result import Origin
from tests.analysis.history.made import run as made
from tests.support.fake_library import Clock, FakeLibrary, fake_bench
from tests.support.misbehaving_library import write_cases
from tests.support.postgresql import Server
from tests.support.result_sets import RESULTS


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with good.json to stand in; temporary files go into tmp/ there."""
    write_cases(tmp_path)
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def call(*words: str, library: FakeLibrary | None = None) -> Result:
    return CliRunner().invoke(main, list(words), obj=fake_bench(library or FakeLibrary(Clock())), prog_name="benchgraph")


def measure(*words: str) -> Result:
    return call("--mode=P", "--graph", "--fix-times-per-prb=2", *words, "--case=good.json")


def kept() -> list[Path]:
    return sorted(Path().rglob("benchgraph-unsaved-*.json"))


def stored(where: str) -> list[int]:
    database = Database(where)
    return [r.id for r in runs(database)]


# ---- into the database -----------------------------------------------------------------------------------------------


def test_a_run_is_appended_and_nothing_else_is_left(url: str) -> None:
    for number in (1, 2):
        result = measure(f"--history={url}", "--commit=v1")
        assert f"history: run {number} of {Database(url).name}\n" in result.stdout
        assert (result.exit_code, result.stderr) == (0, "")
    database = Database(url)
    assert [(r.commit, r.is_dirty) for r in runs(database)] == [("v1", False)] * 2
    assert [p.policy for p in points(database)] == ["fused", "post_ops", "one_op_each"] * 2
    assert read(database, 1).cases[0].result.timings[0].timing.samples_s == pytest.approx((0.003, 0.003))
    assert kept() == []


def test_without_a_value_it_is_that_of_the_environment() -> None:
    assert measure("--history").exit_code == 0
    assert stored("benchgraph-history.db") == [1]
    with override(history="deep/other.db"):
        assert measure("--history").exit_code == 0
    assert stored("deep/other.db") == [1]
    assert stored("benchgraph-history.db") == [1]


def test_no_history_unless_asked_for() -> None:
    measure()
    measure("--history=")
    assert not list(Path().glob("*.db"))


def test_failures_and_results_of_other_modes_are_appended_too() -> None:
    spoiled = FakeLibrary(Clock(), spoil=lambda kind, array: array + 1)
    result = call("--graph", "--history=h.db", "--case=good.json", library=spoiled)
    assert "history: run 1 of h.db\n" in result.stdout
    assert result.exit_code == 1
    database = Database("h.db")
    assert [c.result.status.value for c in read(database, 1).cases] == ["FAILED"]


def test_an_interrupted_run_is_appended_and_goes_on_as_the_same() -> None:
    class Interrupted(FakeLibrary):
        def partitions(self, graph, policy):  # type: ignore[no-untyped-def]
            if self.clock.now:
                raise KeyboardInterrupt
            return super().partitions(graph, policy)

    words = ("--graph", "--history=h.db", "--resume=out.json", "--seed=1,2,3", "--case=good.json")
    assert call(*words, library=Interrupted(Clock())).exit_code == 130
    database = Database("h.db")
    assert len(read(database, 1).cases) == 1
    assert call(*words).exit_code == 0
    assert len(read(database, 1).cases) == 3
    assert [r.id for r in runs(database)] == [1]


# ---- what goes wrong before the first case ---------------------------------------------------------------------------


def refused(where: str) -> str:
    result = measure(f"--history={where}")
    assert (result.exit_code, result.stdout) == (2, "")
    assert kept() == []
    (line,) = result.stderr.splitlines()
    return line


def test_an_unreachable_server(tmp_path: Path) -> None:
    pytest.importorskip("psycopg")
    told = "the server cannot be reached; start it, or mend host and port in the URL"
    assert refused("postgresql://me:hush@127.0.0.1:1/d") == f"benchgraph: postgresql://me:***@127.0.0.1:1/d: {told}"
    hidden = refused(f"postgresql://me@/d?host={tmp_path}&password=hush")
    assert hidden.endswith(f": {told}")
    assert "hush" not in hidden


def test_errors_of_a_server(server: Server) -> None:
    name = server.new("refusals")
    wrong = refused(server.url("refusals", password="hush"))
    assert wrong.endswith(": the server refuses user or password; mend them in the URL")
    assert refused(server.url("nowhere")).endswith(
        ": the server has no such database; create it with 'createdb', or mend the name in the URL"
    )
    server.do("refusals", "CREATE ROLE reader LOGIN PASSWORD 'hush'")
    reader = refused(server.url("refusals", "reader", "hush"))
    assert reader.endswith(": the user may not do that; have an administrator grant the right to create and write tables")
    server.do("refusals", "ALTER DATABASE refusals SET default_transaction_read_only = on")
    assert refused(name).endswith(": may not be written; ask for the right to write there, or name another database")
    assert "hush" not in wrong + reader
    assert server.password not in refused(name)


def test_files_that_cannot_be_histories(folder: Path) -> None:
    (folder / "text").write_text("not a database, but long enough to be taken for one" * 50)
    assert refused("text") == "benchgraph: text: not a SQLite database, or a damaged one; name another file"
    told = "cannot open the file; name a file in a folder that may be read and written"
    assert refused(str(folder)) == f"benchgraph: {folder}: {told}"
    assert refused("text/h.db") == "benchgraph: text/h.db: cannot make the folder: Not a directory; name another file"


def test_a_file_that_may_not_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """As root sees it too: SQLite itself is told to refuse."""
    append(Database("h.db"), made(0, {}))
    pragma(monkeypatch, "query_only=ON")
    assert refused("h.db") == "benchgraph: h.db: may not be written; ask for the right to write there, or name another database"


@pytest.mark.parametrize(
    ("where", "line"),
    [
        ("mysql://me:hush@h/d", "--history: no history is kept in 'mysql'; write sqlite:///FILE or postgresql://USER@HOST/DATABASE"),
        ("postgresql://me:hush@h:port/d", "--history: the URL cannot be read; write sqlite:///FILE or postgresql://USER@HOST/DATABASE"),
        ("sqlite://", "--history: the URL names no file; write sqlite:///FILE, or just FILE"),
    ],
)
def test_urls_that_mean_nothing(where: str, line: str) -> None:
    assert refused(where) == f"benchgraph: {line}"


def test_a_missing_driver_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "psycopg", None)
    line = refused("postgresql://me:hush@h/d?connect_timeout=1")
    assert line == (
        "benchgraph: postgresql://me:***@h/d?connect_timeout=1: the driver is not installed; pip install 'benchgraph[postgres]'"
    )


def test_a_folder_that_may_not_be_written_keeps_results_elsewhere(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "Path", lambda *parts: Path("good.json", *parts) if "unsaved" in str(parts[0]) else Path(*parts))
    assert measure("--history=h.db").exit_code == 0
    monkeypatch.setattr("tempfile.tempdir", "good.json")
    result = measure("--history=h.db")
    assert result.exit_code == 2
    assert result.stderr.endswith(": cannot keep results while the run lasts: Not a directory; run in a folder that may be written\n")


def test_no_room_for_results_is_reported_before_the_first_case(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, text: str) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(growing_report, "write_whole", full)
    result = measure("--history=h.db")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.endswith(": cannot keep results while the run lasts: No space left on device; make room there\n")


# ---- what goes wrong after the last ----------------------------------------------------------------------------------


def pragma(monkeypatch: pytest.MonkeyPatch, words: str) -> None:
    """Every connection to SQLite from now on begins so."""
    usual = databases._leave_transactions_to_us

    def connected(connection: Any, record: object) -> None:
        usual(connection, record)
        connection.execute(f"PRAGMA {words}")

    monkeypatch.setattr(databases, "_leave_transactions_to_us", connected)


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No database grows beyond what an empty history needs."""
    append(Database("h.db"), made(0, {}))
    connection = sqlite3.connect("h.db")
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.close()
    pragma(monkeypatch, f"max_page_count={pages}")
    yield
    monkeypatch.undo()


def test_a_full_disk_leaves_the_results_in_a_file(full: None, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    result = call("--graph", "--history=h.db", f"--seed={','.join(map(str, range(40)))}", "--case=good.json")
    (file,) = kept()
    assert result.exit_code == 1
    assert result.stderr == (
        f"benchgraph: --history: h.db: the disk is full; make room there; the results are in {file}: "
        f"add them with 'benchgraph history --add={file}'\n"
    )
    monkeypatch.undo()
    monkeypatch.chdir(folder)
    assert stored("h.db") == [1]
    for told in ("40 of 40", "0 of 40"):  # the second time there is nothing to do
        added = call("history", f"--add={file}", "--history=h.db")
        assert (added.output, added.exit_code) == (f"{file}: run 2 of h.db, {told} cases new there\n", 0)
    database = Database("h.db")
    assert read(database, 2) == parse(file.read_text())


def test_a_full_disk_of_a_server_is_reported_too(server: Server) -> None:
    where = server.new("fullness")
    append(Database(where), made(0, {}))
    raises = "BEGIN RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = '53100'; END"
    server.do(
        "fullness",
        f"CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$ {raises} $$",
        "CREATE TRIGGER full_disk BEFORE INSERT ON history_case EXECUTE FUNCTION full_disk()",
    )
    result = measure(f"--history={where}")
    (file,) = kept()
    assert f": the disk is full; make room there; the results are in {file}: add them with" in result.stderr
    assert result.stderr.count("\n") == 1
    assert stored(where) == [1]


class Gone:
    """A database that takes nothing. files: made a folder, so that no file of that name can be written."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, files: list[str]) -> None:
        def fail(database: Database, results: object) -> None:
            raise BenchgraphError("gone", where="h.db")

        def write(path: Path, text: str) -> None:
            if any(path.resolve().parent == Path(f).resolve() for f in files):
                path.unlink(missing_ok=True)
                raise OSError(28, "No space left on device")
            path.write_text(text)

        monkeypatch.setattr(recording, "append", fail)
        monkeypatch.setattr(recording, "write_whole", write)


def test_where_this_folder_is_full_the_results_are_kept_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    Gone(monkeypatch, ["."])
    result = measure("--history=h.db")
    (file,) = kept()
    assert file.parent == Path("tmp")
    assert result.stderr.startswith(f"benchgraph: --history: h.db: gone; the results are in {Path.cwd() / file}: add them with")
    assert len(parse(file.read_text()).cases) == 1


def test_where_nothing_can_be_written_the_results_are_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    Gone(monkeypatch, [".", "tmp"])
    result = measure("--history=h.db")
    assert result.stderr == (
        "benchgraph: --history: h.db: gone; no file can be written either, so the results follow as a JSON report: "
        "save it, and add it likewise\n"
    )
    start = result.stdout.index('{"schema_version"')
    text, _ = json.JSONDecoder().raw_decode(result.stdout[start:])
    assert [c["status"] for c in text["cases"]] == ["EXECUTED"]
    assert kept() == []


def test_a_run_that_is_killed_leaves_its_results() -> None:
    """The file is whole after every case, and is there before the database has anything."""
    seen = []

    class Watched(FakeLibrary):
        def partitions(self, graph, policy):  # type: ignore[no-untyped-def]
            seen.append([len(parse(f.read_text()).cases) for f in kept()])
            return super().partitions(graph, policy)

    call("--graph", "--history=h.db", "--seed=1,2,3", "--case=good.json", library=Watched(Clock()))
    assert seen == [[0], [1], [2]]


# ---- history --add ---------------------------------------------------------------------------------------------------

WHOLE = render(replace(RESULTS, origin=Origin("one", 1.5, "c0ffee")))


def test_complete_cases_of_a_cut_report_are_read() -> None:
    Path("cut.json").write_text(WHOLE[: WHOLE.index('{"index": 2') + 30])
    result = call("history", "--add=cut.json", "--history=h.db")
    assert (result.output, result.exit_code) == (
        "cut.json: run 1 of h.db, 2 of 2 cases new there\n"
        "cut.json: cut short after 2 cases; run the rest with --resume=cut.json, and add it again\n",
        0,
    )
    Path("cut.json").write_text(WHOLE)
    assert call("history", "--add=cut.json", "--history=h.db").output == "cut.json: run 1 of h.db, 1 of 3 cases new there\n"


def test_a_report_without_an_origin_is_of_its_time() -> None:
    Path("old.json").write_text(render(RESULTS))
    for _ in range(2):
        assert call("history", "--add=old.json", "--history=h.db", "--commit=v1").exit_code == 0
    (row,) = runs(Database("h.db"))
    assert (row.commit, row.started) == ("v1", Path("old.json").stat().st_mtime)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (None, "cannot read the file: No such file or directory; name another one"),
        ("{}", "not a JSON report of benchgraph; give a file that --report=json:FILE wrote"),
        (
            render(replace(RESULTS, machine=None)),
            "the results do not say which machine they come from; run the cases anew with --history",
        ),
    ],
)
def test_invalid_reports_are_not_added(text: str | None, told: str) -> None:
    if text is not None:
        Path("x.json").write_text(text)
    result = call("history", "--add=x.json", "--history=h.db")
    assert (result.stderr, result.exit_code) == (f"benchgraph: history: --add=x.json: {told}\n", 2)


def test_ctrl_c_while_the_database_is_written_leaves_the_results_in_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(database: Database, results: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(recording, "append", interrupt)
    result = measure("--history=h.db")
    (file,) = kept()
    assert result.exit_code == 1
    assert result.stderr.startswith(f"benchgraph: --history: h.db: interrupted; the results are in {file}: add them with")
