"""Faults of a fleet, at random, while a batch runs: every case must get one result, and the right one.

    python -m tests.fleet.chaos --seconds=300 --cases=1000

Scheduler, workers and client are processes of this machine. Workers are killed, and replaced; stopped (SIGSTOP) for a while, which looks
like a hang or a cut cable; the scheduler is killed and started again at the same address, which ends its workers; the client is killed, and
another resumes its report.
"""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from socket import socket
from tempfile import TemporaryDirectory

import click

from benchgraph.core.config import environment, module_path
from tests.support.misbehaving_library import write_cases

# By how cases end where nothing happens to them: reason and status; every tenth is one of these.
UNUSUAL = {"segfault": "FAILED", "terabyte": "SKIPPED", "leaves": "FAILED"}
CLIENT = "from benchgraph.cli import main; from tests.support.misbehaving_library import BENCH; main(obj=BENCH, prog_name='benchgraph')"


@dataclass(frozen=True)
class Rates:
    """Seconds between two faults of a kind; how long a worker is stopped; 0: never."""

    kill_s: float = 5.0
    stop_s: float = 45.0
    stopped_s: float = 40.0
    scheduler_s: float = 90.0
    client_s: float = 60.0


@dataclass
class Cluster:
    """Processes of `dask scheduler` and `dask worker`. stopped: when each stopped worker goes on."""

    folder: Path
    workers: int
    port: int = 0
    scheduler: subprocess.Popen[bytes] | None = None
    running: list[subprocess.Popen[bytes]] = field(default_factory=list)
    stopped: dict[subprocess.Popen[bytes], float] = field(default_factory=dict)

    @property
    def address(self) -> str:
        return f"tcp://127.0.0.1:{self.port}"

    @contextmanager
    def up(self) -> Iterator[Cluster]:
        self.port = free_port()
        try:
            self.start_scheduler()
            self.keep_workers()
            yield self
        finally:
            for process in (*self.running, *([self.scheduler] if self.scheduler else [])):
                process.kill()
                process.wait()

    def start_scheduler(self) -> None:
        words = ("scheduler", "--host=127.0.0.1", f"--port={self.port}", "--no-dashboard")
        self.scheduler = self._start(*words)

    def keep_workers(self) -> None:
        """Replace the workers that have ended; wake those that were stopped for long enough."""
        for process, until in list(self.stopped.items()):
            if time.monotonic() > until:
                process.send_signal(signal.SIGCONT)
                del self.stopped[process]
        self.running = [p for p in self.running if p.poll() is None]
        while len(self.running) < self.workers:
            words = ("worker", self.address, "--no-nanny", "--nthreads=1", "--memory-limit=0", "--no-dashboard", "--death-timeout=60")
            self.running.append(self._start(*words))

    def kill_scheduler(self) -> None:
        assert self.scheduler is not None
        self.scheduler.kill()
        self.scheduler.wait()
        self.start_scheduler()

    def _start(self, *words: str) -> subprocess.Popen[bytes]:
        log = (self.folder / f"{words[0]}.log").open("ab")
        with log:
            return subprocess.Popen(
                [sys.executable, "-m", "dask", *words], stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env(self.folder)
            )


def env(folder: Path) -> dict[str, str]:
    lock = str(folder / "host.lock")
    return environment({}, PYTHONPATH=module_path(), BENCHGRAPH_HOST_LOCK=lock, DASK_TEMPORARY_DIRECTORY=str(folder))


def free_port() -> int:
    with socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


def write_batch(folder: Path, count: int) -> list[str]:
    """A batch of so many cases in a folder; returns the status that each must have."""
    write_cases(folder)
    names = [list(UNUSUAL)[i // 10 % len(UNUSUAL)] if i % 10 == 7 else "naps" for i in range(count)]
    (folder / "batch").write_text("\n".join(f"--seed={i} --case={name}.json" for i, name in enumerate(names)))
    return [UNUSUAL.get(name, "PASSED") for name in names]


def start_client(cluster: Cluster) -> subprocess.Popen[bytes]:
    words = [f"--cluster={cluster.address}", "--resume=out.json", "--graph", "--batch=batch"]
    log = (cluster.folder / "client.log").open("ab")
    with log:
        return subprocess.Popen([sys.executable, "-c", CLIENT, *words], cwd=cluster.folder, stdout=log, stderr=log, env=env(cluster.folder))


def torment(cluster: Cluster, seconds: float, rates: Rates, seed: int) -> Counter[str]:
    """Run the batch to its end, under faults for so many seconds. Returns how many faults of each kind there were."""
    luck, faults, started = random.Random(seed), Counter[str](), time.monotonic()
    due = {kind: started + wait for kind, wait in vars(rates).items() if wait and kind != "stopped_s"}
    client = start_client(cluster)
    try:
        while client.poll() is None:
            time.sleep(0.2)
            now = time.monotonic()
            for kind in [kind for kind, at in due.items() if now > at and now - started < seconds]:
                due[kind] = now + getattr(rates, kind)
                faults[kind] += 1
                awake = [p for p in cluster.running if p not in cluster.stopped]
                if kind == "kill_s" and awake:
                    luck.choice(awake).kill()
                elif kind == "stop_s" and awake:
                    chosen = luck.choice(awake)
                    chosen.send_signal(signal.SIGSTOP)
                    cluster.stopped[chosen] = now + rates.stopped_s
                elif kind == "scheduler_s":
                    cluster.kill_scheduler()
                elif kind == "client_s":
                    client.kill()
                    client.wait()
                    client = start_client(cluster)
            cluster.keep_workers()
    finally:
        with suppress(ProcessLookupError):
            client.kill()
        client.wait()
    return faults


def wrong_cases(folder: Path, want: list[str]) -> list[str]:
    """Cases without exactly one result, or with another status than they must have."""
    cases = json.loads((folder / "out.json").read_text())["cases"]
    counts = Counter(case["index"] for case in cases)
    wrong = [f"case {i} has {counts[i]} results" for i in range(len(want)) if counts[i] != 1]
    wrong += [f"case {c['index']}: {c['status']} ({c['reason']}), not {want[c['index']]}" for c in cases if c["status"] != want[c["index"]]]
    return wrong


def run(seconds: float, cases: int, workers: int, rates: Rates, seed: int, folder: Path) -> tuple[Counter[str], list[str], float]:
    """Returns the faults, what is wrong, and how long it took."""
    want, started = write_batch(folder, cases), time.monotonic()
    with Cluster(folder, workers).up() as cluster:
        faults = torment(cluster, seconds, rates, seed)
    return faults, wrong_cases(folder, want), time.monotonic() - started


@click.command()
@click.option("--seconds", default=300.0, show_default=True)
@click.option("--cases", default=1000, show_default=True)
@click.option("--workers", default=4, show_default=True)
@click.option("--seed", default=1, show_default=True)
@click.option("--keep", default="", help="a folder for logs and report")
def main(seconds: float, cases: int, workers: int, seed: int, keep: str) -> None:
    """Run a batch under faults; the exit code is 1 if a case has no result, two, or a wrong one."""
    with TemporaryDirectory() as temporary:
        folder = Path(keep or temporary)
        folder.mkdir(exist_ok=True)
        faults, wrong, took = run(seconds, cases, workers, Rates(), seed, folder)
        click.echo(f"{cases} cases in {took:.0f} s; faults: {dict(faults)}; wrong: {len(wrong)}")
        click.echo("\n".join(wrong))
        click.get_current_context().exit(int(bool(wrong)))


if __name__ == "__main__":
    main()
