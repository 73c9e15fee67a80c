"""Batch grammar and file look-up."""

import os
from pathlib import Path

import pytest

from benchgraph.core.errors import InvalidArguments, UsageError
from benchgraph.options.argv import parse
from benchgraph.options.batch import MAX_SEEN, Lookup, tokenize


def texts(content: str) -> list[str]:
    return [w.text for w in tokenize(content, "b")]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", []),
        ("--a  --b\n\t--c", ["--a", "--b", "--c"]),
        ("# all of it\n--a # the rest --b\n--c", ["--a", "--c"]),
        ("--in-shapes=0:4x#4", ["--in-shapes=0:4x#4"]),
        ("--a=1,\\\n  2,\\\n  3 --b", ["--a=1,2,3", "--b"]),
        ("--a=1\\ 2", ["--a=12"]),
        ("--a\\", ["--a"]),
        ("--a=1,\\\n# a remark\n2", ["--a=1,2"]),
        ("--a=, \\\n   1, \\\n   2 --b", ["--a=,1,2", "--b"]),
        ("\\ --a \\", ["--a"]),
        ('--a=\'1 2\' --b="3 #4" # "five', ["--a=1 2", "--b=3 #4"]),
        ('2x3_n"net:1"n', ["2x3_nnet:1n"]),
        ("'--a=it'\"'\"'s'", ["--a=it's"]),
        ('"a\\"b\\\\c\\d" --m=.*\\.json', ['a"b\\c\\d', "--m=.*\\.json"]),
        ("''", [""]),
        ("'--a\\' --b", ["--a\\", "--b"]),
    ],
)
def test_words(content: str, words: list[str]) -> None:
    assert texts(content) == words


@pytest.mark.parametrize(("line", "mark", "at"), [("--a='1 2", "'", 5), ('--b 2x3_n"net', '"', 10), ("'''", "'", 3)])
def test_a_quotation_without_an_end_is_refused_with_its_line(tmp_path: Path, line: str, mark: str, at: int) -> None:
    (tmp_path / "batch").write_text(f"# it's a remark\n--graph\n{line}\n--case=a.json'\n")
    with pytest.raises(UsageError) as bad:
        parse([f"--batch={tmp_path / 'batch'}"])
    what = f"the quotation that begins with {mark} at character {at} has no end"
    assert str(bad.value) == f"{tmp_path / 'batch'}:3: {what}; close it on the same line, or put the mark itself into quotation marks"


def test_a_word_knows_the_line_it_began_on() -> None:
    assert [w.where for w in tokenize("--a\n--b=1,\\\n2 --c", "b")] == ["b:1", "b:2", "b:3"]


def test_a_literal_path_wins_over_seen_directories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in ("here", "seen"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x").touch()
    monkeypatch.chdir(tmp_path / "here")
    lookup = Lookup([tmp_path / "seen"])
    assert lookup.find("x", "graph") == (Path("x"), "x")


def test_a_packaged_file_is_found_by_its_short_name() -> None:
    path, name = Lookup().find("paper/mlp_1.json", "graph")
    assert (path.is_file(), name) == (True, "paper/mlp_1.json")


def test_drivers_on_one_line_find_their_own_files_of_one_name() -> None:
    """Packaged files are called the same with several drivers; who comes first must not say what the next one runs."""
    words = ["--graph", "--batch=test_graph_ci", "--matmul", "--batch=test_matmul_ci", "--softmax", "--batch=test_softmax_ci"]
    for order in (words, [*words[4:], *words[2:4], *words[:2]]):
        together = parse(order).problems
        alone = [p for i in range(0, 6, 2) for p in parse(order[i : i + 2]).problems]
        assert [p.unusable for p in together] == [None] * len(together)
        assert [p.description for p in together] == [p.description for p in alone]


def test_a_batch_file_of_ones_own_names_files_beside_it_for_every_driver(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("--matmul --batch=shapes_2d --softmax --batch=shapes_2d")
    (tmp_path / "shapes_2d").write_text("4x4:4x4")
    matmul, softmax = parse([f"--batch={tmp_path / 'mine'}"]).problems
    assert (matmul.driver.name, softmax.driver.name) == ("matmul", "softmax")


def test_old_directories_are_not_collected_without_bound(tmp_path: Path) -> None:
    lookup = Lookup()
    for i in range(MAX_SEEN + 5):
        folder = tmp_path / str(i)
        folder.mkdir()
        (folder / "x").touch()
        lookup.find(str(folder / "x"), "graph")
    assert len(lookup.seen) == MAX_SEEN


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("paper/mlp_3.json", "paper/mlp_2.json"),
        ("papr/mlp_1.json", "paper/mlp_1.json"),
        ("mlp_1.jsn", "paper/mlp_1.json"),
        ("test_graph_cy", "test_graph_ci"),
        ("bar.json", ""),
        ("paper/other.json", ""),
    ],
)
def test_a_missing_file_is_like_one_of_a_name_that_is_near(name: str, near: str) -> None:
    with pytest.raises(InvalidArguments) as bad:
        Lookup().find(name, "graph")
    assert bad.value.fix == f"did you mean '{near}'?" if near else bad.value.fix.startswith("looked in ")


def test_the_error_for_a_missing_file_lists_the_searched_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidArguments, match=rf"^zzzzz: no such file; looked in {tmp_path}, .*inputs/graph$"):
        Lookup().find("zzzzz", "graph")


def test_a_folder_is_named_once_and_a_pipe_suggests_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidArguments) as bad:
        Lookup([Path(), tmp_path]).find("zzzzz", "graph")
    assert bad.value.fix.count(str(tmp_path)) == 1
    assert ", ., " not in bad.value.fix
    os.mkfifo("pipe")
    with pytest.raises(InvalidArguments, match=r"^pipe: it is a device or a pipe, not a file; name a file$"):
        Lookup().find("pipe", "graph")
