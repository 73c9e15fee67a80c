"""Cases on a real cluster of this machine: a scheduler, and worker processes."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from subprocess import PIPE, Popen

import pytest

from benchgraph.core.config import environment, module_path
from benchgraph.core.isa import ISAS
from benchgraph.fleet.parcel import Interval
from benchgraph.machine.target import missing
from tests.fleet.chaos import CLIENT, Cluster
from tests.support.dask_cluster import cluster, run, timeless
from tests.support.misbehaving_library import write_cases
from tests.support.processes import LISTEN

pytest.importorskip("distributed", reason="the extra fleet is not installed")


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Started once: its workers see none of the folders that tests write cases to, as on other machines."""
    with cluster(tmp_path_factory.mktemp("cluster")) as started:
        yield started


@pytest.fixture(autouse=True)
def _cases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_cases(tmp_path)
    monkeypatch.chdir(tmp_path)


def on(up: Cluster, *words: str) -> tuple[str, str, int]:
    ran = run(f"--cluster={up.address}", *words)
    return timeless(ran.stdout), ran.stderr, ran.exit_code


def test_the_output_is_that_of_a_local_run_whatever_cases_do(up: Cluster) -> None:
    Path("bad.json").write_text("{")
    words = ["--graph", "--case=good.json", "--case=bad.json", "--case=nowhere.json"]
    words += ["--case=segfault.json", "--case=terabyte.json", "--case=writes.json"]
    here, (out, _, code) = run("--jobs=2", *words), on(up, *words)
    processes = re.compile(r"^out \d+ of \d+\n", re.MULTILINE)
    assert len(processes.findall(out)) == 50
    assert (processes.sub("", out), code) == (processes.sub("", timeless(here.stdout)), here.exit_code)


def test_the_document_is_that_of_a_local_run(up: Cluster) -> None:
    words = ("--seed=1,2", "--graph", "--case=good.json", "--case=segfault.json")
    on(up, "--report=json:there.json", *words)
    run("--jobs=2", "--report=json:here.json", *words)
    here, there = (json.loads(Path(f"{name}.json").read_text()) for name in ("here", "there"))
    for document in (here, there):
        del document["elapsed_s"], document["origin"]
        for case in document["cases"]:
            del case["elapsed_s"], case["phases_s"]
    assert there == here


def test_failures_are_saved_on_the_client(up: Cluster) -> None:
    on(up, "--save-failures=failed", "--graph", "--case=segfault.json")
    assert {p.name for p in Path("failed/0000-graph-segfault").iterdir()} >= {"graph.json", "repro.txt"}


def test_timed_cases_never_overlap_on_a_host(up: Cluster) -> None:
    """By the intervals that workers recorded; all workers are on one host here."""
    words = ["-v", "--seed=1,2,3", "--graph", "--case=naps.json", "--mode=P", "--fix-times-per-prb=2", "--case=good.json"]
    _, err, _ = on(up, *words)
    line = r"fleet: case (\d+) ran( alone)? on \S+ \S+ from ([\d.]+) to ([\d.]+) s"
    ran = [(bool(alone), Interval(float(began), float(ended))) for _, alone, began, ended in re.findall(line, err)]
    assert len(ran) == 6
    assert sum(is_alone for is_alone, _ in ran) == 3
    for is_alone, timed in ran:
        assert not is_alone or sum(timed.overlaps(other) for _, other in ran) == 1


def test_nobody_fulfils_where(up: Cluster) -> None:
    out, err, code = on(up, "--where=cpu=Itanium", "--graph", "--case=good.json")
    assert (out, code) == ("", 2)
    assert re.match(r"benchgraph: --where=cpu=Itanium: no worker is so; there are: \[host=\S+ cpu='", err)


def test_other_code_on_a_worker_is_refused(up: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchgraph.fleet.selection.__version__", "0.0.0")
    out, err, code = on(up, "--graph", "--case=good.json")
    assert (out, code) == ("", 2)
    assert re.search(
        r"other code on workers: tcp://[\d.:]+: benchgraph is \S+ there, 0.0.0 here.*; install this benchgraph \(0.0.0", err, re.S
    )


def test_what_no_host_can_run_is_refused_in_its_words(up: Cluster) -> None:
    lacking = [isa.name for isa in ISAS.values() if missing(isa)]
    if not lacking:
        pytest.skip("this CPU has all instruction sets")
    _, err, code = on(up, f"--isa={lacking[0]}", "--graph", "--case=good.json")
    assert code == 2
    assert f"--isa={lacking[0]}: this " in err
    assert "the highest it has is" in err


def test_after_ctrl_c_the_report_is_kept_and_no_process_is_left() -> None:
    """To the client alone, and as a terminal sends it, to all processes in the foreground."""
    for whole_group in (False, True):
        words = ["--cluster=local:1", "-v", "--report=json:out.json", "--graph", "--case=good.json", "--case=loop.json"]
        own = environment({}, PYTHONPATH=module_path())
        command = [sys.executable, "-c", f"{LISTEN}; {CLIENT}", *words]
        client = Popen(command, stdout=PIPE, stderr=PIPE, text=True, start_new_session=True, env=own)
        assert client.stdout is not None
        said = client.stdout.readline()
        assert said.startswith("0:PASSED"), client.communicate()
        (os.killpg if whole_group else os.kill)(client.pid, signal.SIGINT)
        out, err = client.communicate()
        assert client.returncode == 130, (out, err)
        assert "interrupted after 1 of 2 cases" in out
        assert "Traceback" not in err, err
        assert len(json.loads(Path("out.json").read_text())["cases"]) == 1
        until = time.monotonic() + 20.0  # they end by themselves once the client has
        while any(session_of(p) == client.pid for p in processes()):
            assert time.monotonic() < until
            time.sleep(0.05)


def processes() -> list[int]:
    return [int(folder.name) for folder in Path("/proc").iterdir() if folder.name.isdecimal()]


def session_of(pid: int) -> int:
    """0 for a process that has ended."""
    try:
        state, *_, session = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:4]
    except OSError:
        return 0
    return 0 if state == "Z" else int(session)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--cluster=local:2", "--jobs=2"], "--jobs=2: the workers of a cluster run the cases; leave it out"),
        (["--where=isa=avx2"], "--where: it picks workers of a cluster; add --cluster=ADDRESS"),
        (["--cluster=local:none"], "bad value 'local:none'; say how many worker processes, as in local:4"),
        (["--cluster=http://here"], "no address of a scheduler: Dask knows"),
        (["--cluster=absent.json"], "--cluster=absent.json: no scheduler file: No such file or directory; name one that 'dask scheduler"),
        (["--cluster=good.json"], "no scheduler file: it has no address; name one that"),
        (["--cluster=/etc/passwd"], "no scheduler file: it is not JSON; name one that"),
    ],
)
def test_what_cannot_be_meant_is_refused(words: list[str], said: str) -> None:
    ran = run(*words, "--graph", "--case=good.json")
    assert ran.exit_code == 2
    assert said in ran.stderr
