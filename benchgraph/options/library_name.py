r"""Names of libraries under test: [LABEL=]KIND[:PLACE].

onednn                     the first oneDNN that is found
onednn:/opt/libdnnl.so.3   that file
benchgraph:HEAD~1          another commit of benchgraph; benchgraph alone is this one
onnxruntime                a runtime of whole models; onnxruntime:/opt/venv is that of another Python environment
new=onednn:/opt/new        the same sort of library, which results call new
onednn:/opt/a\,b           a comma in a path
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile

from benchgraph.core.errors import did_you_mean

_LABEL = re.compile(r"[\w.@+-]+")
_COMMA = re.compile(r"(?<!\\),")  # between names; one within a path follows a backslash


@dataclass(frozen=True)
class LibraryKind:
    """What the command line knows about a kind of library.

    policies: all are measured if none is named; a kind with a single one takes part whatever policies are named. place: what may follow
    its name. has_options: whether passes can be left out of its policies.
    """

    policies: tuple[str, ...]
    place: str
    has_options: bool = False

    def has_policy(self, policy: str) -> bool:
        """Whether it supports a policy, and its compiler options if it has any."""
        name, options, _ = policy.partition(":")
        return name in self.policies and (not options or self.has_options)


_ENVIRONMENT = "the folder of a Python environment"

KINDS = {
    "benchgraph": LibraryKind(("fused", "post_ops", "one_op_each"), place="a checkout or commit", has_options=True),
    "onednn": LibraryKind(("fused", "one_op_each"), place="the path of a library file"),
    "onednn:primitives": LibraryKind(("post_ops",), place="the path of a library file"),
    "onnxruntime": LibraryKind(("fused",), place=_ENVIRONMENT),
    "openvino": LibraryKind(("fused",), place=_ENVIRONMENT),
    "torch": LibraryKind(("fused",), place=_ENVIRONMENT),
    "inductor": LibraryKind(("fused",), place=_ENVIRONMENT),
}


@dataclass(frozen=True)
class LibraryName:
    """label: '' unless one is given. place: as the system has it, without the backslashes of commas."""

    kind: str
    place: str = ""
    label: str = ""

    @classmethod
    def read(cls, word: str) -> LibraryName:
        """Raises ValueError, whose text is the remedy."""
        before, equals, rest = word.partition("=")
        label = before if equals and _LABEL.fullmatch(before) else ""
        word = rest if label else word
        kind = max((k for k in KINDS if word == k or word.startswith(f"{k}:")), key=len, default="")
        if not kind:
            name = word.partition(":")[0]
            raise ValueError(did_you_mean(name, KINDS) or f"choose among {', '.join(KINDS)}")
        place = word.removeprefix(kind).removeprefix(":")
        if not place and word != kind:
            raise ValueError(f"give {KINDS[kind].place} after {kind}:")
        return cls(kind, place.replace("\\,", ","), label)

    @classmethod
    def of_version(cls, word: str) -> LibraryName:
        """As `read`, but anything that names no kind is the PLACE of a benchgraph. Raises ValueError, whose text is the remedy."""
        before, equals, rest = word.partition("=")
        label, place = (before, rest) if equals and _LABEL.fullmatch(before) else ("", word)
        if any(place == kind or place.startswith(f"{kind}:") for kind in KINDS):
            return cls.read(word)
        if not place:
            raise ValueError("give a library, or a commit or checkout of benchgraph")
        return cls("benchgraph", place.replace("\\,", ","), label)

    def __str__(self) -> str:
        place = self.place.replace(",", "\\,")
        return (f"{self.label}=" if self.label else "") + self.kind + (f":{place}" if place else "")


def names(text: str) -> tuple[str, ...]:
    """The names of several libraries, which commas join. Raises ValueError for an unknown one, whose text is the remedy."""
    found = tuple(_COMMA.split(text))
    for number, word in enumerate(found):
        try:
            LibraryName.read(word)
        except ValueError as bad:
            raise ValueError(f"{bad}; a comma within a path is written \\," if number and "/" in text else str(bad)) from bad
    return found


def labels(words: Sequence[str]) -> dict[str, str]:
    """What results call each library: its label, else its kind, else the kind and the part of the place that tells it from others.

    onednn:/opt/a/lib onednn:/opt/b/lib -> onednn@a onednn@b
    """
    names = {word: LibraryName.read(word) for word in words}
    found = dict[str, str]()
    for word, name in names.items():
        places = [other.place for other in names.values() if other.kind == name.kind and other.place]
        alone = len([other for other in names.values() if other.kind == name.kind]) == 1
        found[word] = name.label or (name.kind if alone or not name.place else f"{name.kind}@{_distinct_part(name.place, places)}")
    return found


def _distinct_part(place: str, places: Iterable[str]) -> str:
    """The path without the folders that it begins and ends with as all others do."""
    paths = [p.rstrip("/").split("/") for p in places]
    if len(paths) == 1:
        return place
    same = len(list(takewhile(lambda parts: len(set(parts)) == 1, zip(*paths, strict=False))))
    tail = len(list(takewhile(lambda parts: len(set(parts)) == 1, zip(*(p[same:][::-1] for p in paths), strict=False))))
    mine = place.rstrip("/").split("/")
    return "/".join(mine[same : len(mine) - tail]) or place
