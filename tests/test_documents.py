"""The README and the docs: every command of a code block is understood; with --commands those that users begin with run in an empty folder.

A command runs as it stands in the document but for `SHORTER`: options at its end that make it take fewer cases, or shorter ones.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from benchgraph.options.argv import parse

ROOT = Path(__file__).parents[1]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
RUN = ("README.md", "usage.md")  # documents whose commands are run, in order

PROGRAMS = ("benchgraph", "pip", "pytest", "python")
ELSEWHERE = ("../shared", "PASS", "...")  # of the corpus, or with a placeholder
SHORTER = {
    r"--batch=": "--shard=1/40",
    r"--mode=P": "--max-ms-per-prb=10",
    r"--count": "--count=5",
    r"^benchgraph tune": "--rounds=1 --choices=3",
    r"^benchgraph compile-times": "--runs=1",
    r"^benchgraph calibrate": "--seconds=1",
    r"-m benchgraph\.framework\.torch": "--rounds=2",
}
ENDS = {  # exit codes besides 0 that so short a run may end with
    "benchgraph compare": {1},  # two runs of a moment each may well differ
    "benchgraph regressions": {2},  # a verdict takes eight runs of a case
}
DATABASE = "postgresql://ci@db.example/bench"
CUDA = ("nvidia", "cuda", "triton")


@dataclass(frozen=True)
class Command:
    """One command of a document, without its comment: `text` as a shell reads it."""

    document: Path
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.document.name}:{self.line}"

    @property
    def steps(self) -> list[str]:
        return self.text.split(" && ")


def commands(document: Path) -> Iterator[Command]:
    """The lines of indented and of shell blocks that begin with a program of ours or of Python's, after settings of variables."""
    begins = re.compile(rf"(?:[A-Z_]+=\S+ )*(?:{'|'.join(PROGRAMS)})\b")
    fence = ""
    for number, line in enumerate(document.read_text().splitlines(), 1):
        if line.startswith("```"):
            fence = "" if fence else line.strip("`") or "text"
        elif (fence in ("sh", "bash", "console") or (not fence and line.startswith("    "))) and begins.match(line.strip()):
            yield Command(document, number, re.sub(r"\s+#\s.*$", "", line.strip()))


ALL = [command for document in DOCUMENTS for command in commands(document) if not any(part in command.text for part in ELSEWHERE)]


def words_of(step: str) -> list[str]:
    """Without settings of variables; what another command prints is some word."""
    return shlex.split(re.sub(r"\$\(.*?\)", "word", re.sub(r"^(?:[A-Z_]+=\S+ )*", "", step)))


LINES = [(c, words) for c in ALL for step in c.steps if (words := words_of(step))[0] == "benchgraph"]


def test_there_are_commands() -> None:
    assert len(LINES) > 40


@pytest.mark.parametrize(("command", "words"), [pytest.param(c, w, id=str(c)) for c, w in LINES if w[1].startswith("-")])
def test_a_command_is_understood(command: Command, words: list[str]) -> None:
    """A line that runs cases; those of other commands are read where they run."""
    assert parse(words[1:]).planned, command


def shorter(step: str) -> str:
    return " ".join([step, *(words for where, words in SHORTER.items() if re.search(where, step))])


def installs(step: str) -> list[str]:
    """The packages that a `pip install` line would bring into this environment."""
    words = shlex.split(step)
    done = subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--report=-", *words[2:]],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{step}\n{done.stderr}"
    return [package["metadata"]["name"] for package in json.loads(done.stdout)["install"]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A user's folder: a repository with a commit and a tag, as the lines about histories have it, and nothing else."""
    made = tmp_path_factory.mktemp("user")
    git = ["git", "-c", "user.name=user", "-c", "user.email=user@example.org"]
    for words in (["init"], ["commit", "--allow-empty", "--message=begin"], ["tag", "v1.2"]):
        subprocess.run([*git, *words], cwd=made, check=True, capture_output=True)
    return made


@pytest.fixture(scope="module")
def environment(folder: Path) -> dict[str, str]:
    """This process's, without what tests set for themselves, with this environment's programs first."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("BENCHGRAPH_")}
    return {**kept, "PATH": f"{Path(sys.executable).parent}:{kept['PATH']}", "BENCHGRAPH_CACHE_DIR": str(folder / "cache")}


def run(step: str, folder: Path, environment: dict[str, str]) -> str:
    """What went wrong with a step of a command; '' when nothing did."""
    if step.startswith("pip install"):
        return "".join(f"{step}: brings {name}\n" for name in installs(step) if name.lower().startswith(CUDA))
    shell = ["bash", "-euo", "pipefail", "-c", step]
    done = subprocess.run(shell, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=300)
    allowed = {0}.union(*(codes for begin, codes in ENDS.items() if step.startswith(begin)))
    if done.returncode in allowed and "Traceback" not in done.stdout + done.stderr:
        return ""
    return f"{step}: exit code {done.returncode}\n{done.stdout[-1000:]}\n{done.stderr[-1000:]}\n"


def test_the_commands_of_the_readme_and_of_usage_run(folder: Path, environment: dict[str, str], request: pytest.FixtureRequest) -> None:
    if not request.config.getoption("--commands"):
        pytest.skip("takes minutes; pytest --commands runs it")
    failed = []
    for command in (c for name in RUN for c in ALL if c.document.name == name):
        for step in (shorter(step) for step in command.steps if step != "pytest"):
            if DATABASE in step:
                step = step.replace(DATABASE, shlex.quote(request.getfixturevalue("postgresql")))
            failed += [f"{command}: {wrong}" for wrong in [run(step, folder, environment)] if wrong]
    assert not failed, "\n".join(failed)
