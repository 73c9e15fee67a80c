"""Parsers of the global options with a grammar of their own. Free of numpy. A parser raises ValueError, whose text is the remedy."""

from __future__ import annotations

import re

from benchgraph.core.config import config
from benchgraph.core.errors import did_you_mean

# The policies of a library, all measured if none is named.
LIBRARY_POLICIES = {"benchgraph": ("fused", "post_ops", "one_op_each"), "onednn": ("fused", "one_op_each")}


OPTIONS_OF_POLICIES = ("benchgraph",)  # the libraries whose passes can be left out


def has_policy(library: str, policy: str) -> bool:
    """Whether a library supports a policy, and its compiler options if it has any."""
    name, options, _ = policy.partition(":")
    return name in LIBRARY_POLICIES[library] and (not options or library in OPTIONS_OF_POLICIES)


def policies(word: str) -> tuple[str, ...]:
    from benchgraph.options.policy import PolicyChoice  # imports numpy, so only when a policy is named

    return tuple(dict.fromkeys(str(PolicyChoice.read(name)) for name in word.split(",")))


def libraries(word: str) -> tuple[str, ...]:
    """NAME, or NAME:PATH of a library file; several joined by commas."""
    for each in (chosen := tuple(word.split(","))):
        name, colon, path = each.partition(":")
        if name not in LIBRARY_POLICIES:
            raise ValueError(did_you_mean(name, LIBRARY_POLICIES) or f"choose among {', '.join(LIBRARY_POLICIES)}")
        if colon and (name == "benchgraph" or not path):
            raise ValueError("only onednn has a path" if path else f"give a path after {name}:")
    return tuple(dict.fromkeys(chosen))


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
