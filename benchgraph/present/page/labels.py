"""Short names of cases for plots: the words that distinguish them, without the words that all share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from benchgraph.core.printable import printable
from benchgraph.present.page.view import Case

CUT = "…"


def labels(cases: Sequence[Case], length: int) -> dict[str, str]:
    """By the keys of cases, names of at most `length` letters. Cases that are not distinguished by their words get their numbers."""
    words = [c.words for c in cases]
    shared = set.intersection(*map(set, words)) if words else set()
    whole = [" ".join(_plain(w) for i, w in enumerate(case_words, 1) if i == len(case_words) or w not in shared) for case_words in words]
    return dict(zip([c.key for c in cases], apart(whole, [c.index for c in cases], length), strict=True))


def apart(names: Sequence[str], numbers: Sequence[int], length: int) -> list[str]:
    """The ends of names, preceded by their numbers where the ends are equal."""
    cut = [ending(name, length) for name in names]
    often = Counter(cut)
    marks = [f"#{number} " for number in numbers]
    return [
        short if often[short] == 1 else mark + ending(name, length - len(mark)) for short, mark, name in zip(cut, marks, names, strict=True)
    ]


def ending(name: str, length: int) -> str:
    """The end of a name. Of an option that is cut off, only its value is left, unless its whole name fits."""
    name = printable(name)
    if len(name) <= length:
        return name
    head, tail = name[: 1 - length], name[1 - length :]
    part, space, rest = tail.partition(" ")
    if head.endswith(" ") or not space:
        return CUT + tail
    value = part.partition("=")[2] or ("" if "=" not in head.rpartition(" ")[2] else part)
    return f"{CUT}{value}{space if value else ''}{rest}"


def _plain(word: str) -> str:
    """An option without its dashes; for the case, its value."""
    return word.removeprefix("--case=").removeprefix("--")
