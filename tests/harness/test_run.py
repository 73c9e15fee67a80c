"""What is in force while a case runs."""

from pathlib import Path

import pytest

from benchgraph.core.config import Config, config, override
from benchgraph.core.target import current
from benchgraph.graph import GraphBuilder, save
from benchgraph.harness.argv import parse
from benchgraph.harness.results import Status
from benchgraph.harness.run import run_case
from benchgraph.partition.ir import Partition
from tests.harness.fake_library import Clock, Compiled, FakeLibrary, fake_bench


class Watching(FakeLibrary):
    """Notes the configuration at every compilation."""

    def compile(self, partition: Partition) -> Compiled:
        self.seen = [*getattr(self, "seen", []), (config(), current().cores)]
        return super().compile(partition)


@pytest.fixture
def case(tmp_path: Path) -> Path:
    b = GraphBuilder()
    b.op("ReLU", b.input((16,)))
    save(b.graph(), tmp_path / "case.json")
    return tmp_path / "case.json"


def seen(*words: str) -> list[tuple[Config, int]]:
    library = Watching(Clock())
    for problem in parse(list(words)).problems:
        assert run_case(problem, fake_bench(library), print).result.status is Status.PASSED
    return library.seen


def test_threads_hold_during_the_case_only(case: Path) -> None:
    before = config()
    assert [cores for _, cores in seen("--graph", "--threads=1,3", f"--case={case}")] == [1, 3]
    assert config() == before


def test_without_threads_the_environment_decides(case: Path) -> None:
    with override(threads=5):
        assert [cores for _, cores in seen("--graph", f"--case={case}")] == [5]


def test_text_dumps_go_to_a_folder_per_case_and_policy(case: Path) -> None:
    found = seen("--graph", "--dump-dir=out", "--policy=fused,one_op_each", f"--case={case}", f"--case={case}")
    assert [c.dump_dir for c, _ in found] == [
        "out/0000-graph-case/fused",
        "out/0000-graph-case/one_op_each",
        "out/0001-graph-case/fused",
        "out/0001-graph-case/one_op_each",
    ]


def test_no_dumps_unless_asked_for(case: Path) -> None:
    assert [c.dump_dir for c, _ in seen("--graph", f"--case={case}")] == [""]
