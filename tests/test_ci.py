"""docs/ci.md: with --commands every command of its jobs runs, with stand-ins for the programs that talk to a service."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "ci.md").read_text()
SHARDS = (1, 2)
VARIABLES = {
    "GITHUB_STEP_SUMMARY": "summary.md", "PULL_REQUEST": "7", "CI_NODE_TOTAL": "2", "COMMENT_TOKEN": "t0ken",
    "CI_API_V4_URL": "https://gitlab.example/api/v4", "CI_PROJECT_ID": "1", "CI_MERGE_REQUEST_IID": "7",
    "GITHUB_SERVER_URL": "https://github.com", "GITHUB_REPOSITORY": "me/it", "CI_PROJECT_URL": "https://gitlab.example/me/it",
    "CLUSTER": "local:1", "WHERE": "cores=1",
}  # fmt: skip
SHORTER = {  # fewer cases and less time than the page's own
    r"--mode=P": "--shard=1/40 --threads=1 --max-ms-per-prb=10",
    r"^benchgraph ab": "--match=/?mlp.json --launches=1 --threads=1 --max-ms-per-prb=10",
}
MAY_END_WITH = {"benchgraph ab": {0, 1}}  # so short a measurement may find anything


def commands(part: object) -> Iterator[str]:
    """The commands of a job, in order: GitHub's `run` of each step, GitLab's lists whose keys end in `script`. part: of parsed YAML."""
    if isinstance(part, list):
        for each in part:
            yield from commands(each)
    elif isinstance(part, dict):
        for name, value in part.items():
            if name == "run":
                yield str(value)
            elif str(name).endswith("script"):
                yield from map(str, value)
            else:
                yield from commands(value)


yaml = pytest.importorskip("yaml", reason="needs PyYAML: pip install -e '.[test]'")
BLOCKS = [list(commands(yaml.safe_load(block))) for block in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)]


def test_the_page_has_what_it_says() -> None:
    assert [len(block) for block in BLOCKS] == [9, 4, 8]
    assert {line.split()[0] for block in BLOCKS for line in block} == {"benchgraph", "pip", "cat", "gh", "curl"}


@pytest.fixture
def checkout(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A clone of this repository with a remote main, and programs that write down how they were called."""
    if not request.config.getoption("--commands"):
        pytest.skip("takes a minute; pytest --commands runs it")
    if not (ROOT / ".git").exists():
        pytest.skip("not a checkout")
    folder, programs = tmp_path / "clone", tmp_path / "bin"
    subprocess.run(["git", "clone", "--quiet", "--shared", ROOT, folder], check=True)
    subprocess.run(["git", "update-ref", "refs/remotes/origin/main", "HEAD"], cwd=folder, check=True)
    programs.mkdir()
    for name, text in (
        ("gh", f'echo "$@" >> {tmp_path}/called'),
        ("curl", f'echo "$@" >> {tmp_path}/called'),
        ("pip", f'echo "$@" >> {tmp_path}/called'),
        ("benchgraph", f'exec {sys.executable} -m benchgraph "$@"'),
    ):
        (programs / name).write_text(f"#!/bin/sh\n{text}\n")
        (programs / name).chmod(0o755)
    for name, value in {**VARIABLES, "HISTORY": request.getfixturevalue("postgresql"), "PATH": f"{programs}:{os.environ['PATH']}"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PYTHONPATH", str(folder))
    return folder


def test_every_command_runs(checkout: Path) -> None:
    """In the order of the page; what stands there twice runs once."""
    for line in dict.fromkeys(line for block in BLOCKS for line in block):
        is_of_shard = "matrix.shard" in line or "CI_NODE_INDEX" in line
        for shard in SHARDS if is_of_shard else SHARDS[:1]:
            command = line.replace("${{ matrix.shard }}", str(shard))
            command = " ".join([command, *(words for where, words in SHORTER.items() if re.search(where, command))])
            environment = os.environ | {"CI_NODE_INDEX": str(shard)}
            done = subprocess.run(
                ["bash", "-ec", command], cwd=checkout, env=environment, capture_output=True, text=True, check=False, timeout=200
            )
            allowed = next((codes for begin, codes in MAY_END_WITH.items() if command.startswith(begin)), {0})
            assert done.returncode in allowed, f"{command}\n{done.stdout}\n{done.stderr}"
    smoke, regressions = (json.loads((checkout / f"{name}.json").read_text()) for name in ("smoke", "regressions"))
    tests = ET.parse(checkout / "junit.xml").findall(".//testcase")
    assert len(tests) == len(smoke["cases"]) == smoke["planned"] > 2
    assert (checkout / "summary.md").read_text().count("**benchgraph regressions**") == 1
    assert len(regressions["runs"]) == 1
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=checkout, check=True, capture_output=True, text=True).stdout.strip()
    assert f'href="https://gitlab.example/me/it/-/commit/{head}"' in (checkout / "dashboard.html").read_text()
    assert (checkout / "ab.md").read_text().startswith("**benchgraph ab**")
    called = (checkout.parent / "called").read_text()
    assert "pr comment 7 --edit-last --create-if-none --body-file ab.md\n" in called
    assert "body@ab.md https://gitlab.example/api/v4/projects/1/merge_requests/7/notes\n" in called
