"""Files of cases on hosts that do not have them."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from benchgraph.fleet import content
from benchgraph.fleet.content import Contents, Store
from benchgraph.fleet.parcel import SentFile
from benchgraph.options.argv import parse
from tests.support.misbehaving_library import write_cases


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_cases(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def moved(sent: SentFile) -> SentFile:
    """As a client whose file is not on this machine sends it."""
    return replace(sent, path=f"/elsewhere/{Path(sent.path).name}")


def files(contents: Contents, *words: str) -> tuple[SentFile, ...]:
    (problem,) = parse([*words, "--graph", "--case=good.json"]).problems
    return contents.files_of(problem)


def test_a_file_that_is_here_is_read_in_place(folder: Path) -> None:
    (sent,) = files(Contents())
    store = Store(folder / "store")
    assert store.missing([sent], {}) == ()
    assert store.path_of(sent) == folder / "good.json"
    assert not (folder / "store").exists()


def test_a_file_of_that_name_and_other_content_is_not_it(folder: Path) -> None:
    contents = Contents()
    (sent,) = files(contents)
    (folder / "good.json").write_text("{}")
    assert Store(folder / "store").missing([sent], {}) == (sent.contents[0][1],)


def test_a_file_is_stored_once_under_its_name(folder: Path) -> None:
    contents, store = Contents(), Store(folder / "store")
    (sent,) = files(contents)
    (digest,) = store.missing([moved(sent)], {})
    assert store.missing([moved(sent)], {digest: contents.bytes_of(digest)}) == ()
    assert store.path_of(moved(sent)).name == "good.json"
    assert store.path_of(moved(sent)).read_bytes() == (folder / "good.json").read_bytes()
    assert Store(folder / "store").missing([moved(sent)], {}) == ()


def test_data_in_a_folder_are_a_folder_there(folder: Path) -> None:
    (folder / "data" / "in").mkdir(parents=True)
    (folder / "data" / "0.npy").write_bytes(b"zero")
    (folder / "data" / "in" / "1.npy").write_bytes(b"one")
    contents, store = Contents(), Store(folder / "store")
    _, data = files(contents, "--data=data")
    lacking = store.missing([moved(data)], {})
    assert len(lacking) == 2
    assert store.missing([moved(data)], {digest: contents.bytes_of(digest) for digest in lacking}) == ()
    there = store.path_of(moved(data))
    assert {str(f.relative_to(there)): f.read_bytes() for f in there.rglob("*.npy")} == {"0.npy": b"zero", "in/1.npy": b"one"}


def test_a_file_that_changes_is_another_one(folder: Path) -> None:
    contents = Contents()
    (before,) = files(contents)
    (folder / "good.json").write_text("{}")
    (after,) = files(contents)
    assert before.contents != after.contents


def test_a_file_that_changed_since_is_not_sent(folder: Path) -> None:
    contents = Contents()
    (sent,) = files(contents)
    (folder / "good.json").write_text("{}")
    assert contents.bytes_of(sent.contents[0][1]) is None


def test_a_case_without_files_sends_none(folder: Path) -> None:
    (problem,) = parse(["--matmul", "2x3:3x4"]).problems
    assert Contents().files_of(problem) == ()
    (problem,) = parse(["--graph", "--case=nowhere.json"]).problems
    assert Contents().files_of(problem) == ()


def test_what_nobody_reads_is_dropped(folder: Path) -> None:
    store = Store(folder / "store")
    for name, age_s in (("old", content.KEPT_S + 60), ("new", 60)):
        (folder / "store" / name).mkdir(parents=True)
        os.utime(folder / "store" / name, (time.time() - age_s,) * 2)
    store.drop_old()
    assert [f.name for f in (folder / "store").iterdir()] == ["new"]
