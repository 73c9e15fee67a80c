"""Parsers of the global options with a grammar of their own. Free of numpy. A parser raises ValueError, whose text is the remedy."""

from __future__ import annotations

import re

from benchgraph.core.config import config
from benchgraph.core.errors import did_you_mean
from benchgraph.core.isa import ISAS
from benchgraph.options.library_name import labels, names
from benchgraph.options.parsers import boolean, text


def policies(word: str) -> tuple[str, ...]:
    from benchgraph.options.policy import PolicyChoice  # imports numpy, so only when a policy is named

    return tuple(dict.fromkeys(str(PolicyChoice.read(name)) for name in word.split(",")))


def libraries(word: str) -> tuple[str, ...]:
    """[LABEL=]KIND[:PLACE] (library_name.py); several joined by commas."""
    words = names(word)
    if double := next((w for w in words if words.count(w) > 1), ""):
        bare = double.rpartition("=")[2]
        raise ValueError(f"{double} is named twice; to compare it with itself give it labels, as in a={bare},b={bare}")
    named = list(labels(words).values())
    twice = next((label for label in named if named.count(label) > 1), "")
    if twice:
        raise ValueError(f"two libraries are called {twice}: give one another label, as in new={words[-1].rpartition('=')[2]}")
    return words


def report(word: str) -> tuple[tuple[str, str], ...]:
    """NAME or NAME:FILE; FILE '' is the terminal."""
    name, _, file = word.partition(":")
    if not name:
        raise ValueError("give NAME or NAME:FILE")
    return ((name, file),)


def summary(word: str) -> str:
    """Parts joined by +, each with or without no-; unnamed parts are on. Returns the parts that are off, joined by +."""
    known = ("failures", "impl", "impl-csv")
    off = set[str]()
    for part in word.split("+"):
        if (name := part.removeprefix("no-")) not in known:
            near = did_you_mean(part, [*known, *(f"no-{k}" for k in known)])
            raise ValueError(near or f"combine {', '.join(known)} by +, each perhaps with no- in front")
        off = off | {name} if part != name else off - {name}
    return "+".join(sorted(off))


def cold_cache(word: str) -> str:
    if word.startswith("custom"):
        raise ValueError("custom means data that are named in benchdnn's own source; choose wei or all")
    if not re.fullmatch(r"(none|wei|all)(\+tlb(:[1-9]\d*[MG])?)?", word):
        raise ValueError("give none, wei or all, perhaps with +tlb or +tlb:SIZE, as in all+tlb:1G")
    return word


def layers(word: str) -> str:
    """auto, true or false."""
    return word if word == "auto" else text(boolean(word))


def file(word: str) -> str:
    """A file that is both read and written."""
    if word == "-":
        raise ValueError("give a file: what is on standard output cannot be read again")
    return word


def history(word: str) -> str:
    file(word)
    return config().history if word == "true" else word


def template(word: str) -> str:
    from benchgraph.options.perf_template import check

    check(word)
    return word


def cluster(word: str) -> str:
    """local:N, the address of a scheduler, or its scheduler file."""
    kind, _, count = word.partition(":")
    if kind == "local" and not (count.isdecimal() and int(count)):
        raise ValueError("say how many worker processes, as in local:4")
    return word


def where(word: str) -> tuple[tuple[str, str], ...]:
    """NAME=VALUE, several joined by commas."""
    found = list[tuple[str, str]]()
    for part in word.split(","):
        name, _, value = part.partition("=")
        if not name or not value:
            raise ValueError("give NAME=VALUE[,...], as in isa=avx2,cpu=EPYC,cores=8")
        if name == "isa" and value not in ISAS:
            raise ValueError(did_you_mean(value, ISAS) or f"the levels are {', '.join(ISAS)}")
        if name in ("cores", "memory") and not value.isdecimal():
            raise ValueError(f"give a whole number: {name}=8")
        found.append((name, value))
    return tuple(found)
