"""Names of libraries under test, and what results call them."""

from __future__ import annotations

import pytest

from benchgraph.options.global_parsers import libraries
from benchgraph.options.library_name import LibraryName, labels


@pytest.mark.parametrize(
    ("words", "want"),
    [
        (("benchgraph",), ("benchgraph",)),
        (("benchgraph", "onednn:/opt/libdnnl.so.3"), ("benchgraph", "onednn")),
        (("onednn", "onednn:/opt/lib"), ("onednn", "onednn@/opt/lib")),
        (("onednn:/opt/3.9/lib/libdnnl.so.3", "onednn:/opt/3.10/lib/libdnnl.so.3"), ("onednn@3.9", "onednn@3.10")),
        (("onednn:/opt/a/x/lib", "onednn:/opt/b/x/lib/"), ("onednn@a", "onednn@b")),
        (("onednn:/opt/lib", "onednn:/opt/lib/new"), ("onednn@/opt/lib", "onednn@new")),
        (("old=onednn:/opt/lib=3", "new=onednn"), ("old", "new")),
    ],
)
def test_labels_tell_libraries_apart(words: tuple[str, ...], want: tuple[str, ...]) -> None:
    assert tuple(labels(words).values()) == want


def test_a_path_may_contain_an_equals_sign() -> None:
    assert LibraryName.read("onednn:/opt/lib=3") == LibraryName("onednn", "/opt/lib=3")
    assert LibraryName.read("v3=onednn:/opt/lib=3") == LibraryName("onednn", "/opt/lib=3", "v3")


def test_a_path_may_contain_commas_after_a_backslash() -> None:
    words = libraries("a=onednn:/opt/1\\,2/lib,benchgraph")
    assert words == ("a=onednn:/opt/1\\,2/lib", "benchgraph")
    name = LibraryName.read(words[0])
    assert name.place == "/opt/1,2/lib"
    assert str(name) == words[0]
    assert str(LibraryName.of_version("onednn:/opt/1,2")) == "onednn:/opt/1\\,2"


@pytest.mark.parametrize(
    ("word", "remedy"),
    [
        (
            "onednn:/opt/1,2/lib",
            r"choose among benchgraph, onednn, onednn:primitives, .*, inductor; a comma within a path is written \\,$",
        ),
        ("onednn,", "choose among benchgraph, onednn, onednn:primitives, .*, inductor$"),
        ("onedn", "did you mean 'onednn'"),
        ("a b=tensorflow", "choose among"),
        ("a=onednn,a=onednn", "a=onednn is named twice; to compare it with itself give it labels, as in a=onednn,b=onednn"),
        ("onednn,onednn", "onednn is named twice; to compare it with itself give it labels, as in a=onednn,b=onednn"),
        ("a=onednn,a=benchgraph", "two libraries are called a: give one another label, as in new=benchgraph"),
        ("onednn,onednn=benchgraph", "two libraries are called onednn"),
    ],
)
def test_errors_name_the_remedy(word: str, remedy: str) -> None:
    with pytest.raises(ValueError, match=remedy):
        libraries(word)


def test_a_version_may_be_a_library_or_a_place_of_benchgraph() -> None:
    assert LibraryName.of_version("onednn:/opt/lib") == LibraryName("onednn", "/opt/lib")
    assert LibraryName.of_version("v1=benchgraph:HEAD~1") == LibraryName("benchgraph", "HEAD~1", "v1")
    assert LibraryName.of_version("HEAD~1") == LibraryName("benchgraph", "HEAD~1")
    assert LibraryName.of_version("v1=.") == LibraryName("benchgraph", ".", "v1")
    assert LibraryName.of_version("../a=b") == LibraryName("benchgraph", "../a=b")
    for word in ("v1=HEAD", "onednn", "a=onednn:/opt"):
        assert LibraryName.of_version(str(LibraryName.of_version(word))) == LibraryName.of_version(word)
    with pytest.raises(ValueError, match="give a library, or a commit or checkout of benchgraph"):
        LibraryName.of_version("v1=")
