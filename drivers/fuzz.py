"""fuzz: random graphs from the op table. `benchgraph --fuzz 1:17` is graph 17 of seed 1; `benchgraph fuzz` runs many of them."""

from __future__ import annotations

from dataclasses import dataclass
from re import ASCII, fullmatch
from typing import TYPE_CHECKING

from benchgraph.options.knobs import knob
from benchgraph.options.parsers import natural, positive
from benchgraph.options.problem import Driver

if TYPE_CHECKING:
    from benchgraph.graph import Graph


@dataclass(frozen=True)
class Place:
    """Graph `index` of a seed."""

    seed: int
    index: int

    def __str__(self) -> str:
        return f"{self.seed}:{self.index}"


def place(word: str) -> Place:
    """SEED:INDEX"""
    try:
        seed, index = map(natural, word.split(":"))
    except ValueError:
        raise ValueError("it names no graph; give SEED:INDEX, as in 1:17") from None
    return Place(seed, index)


def release(word: str) -> str:
    """A release of oneDNN: the first two numbers of its version."""
    from benchgraph.onednn.table import FIRST  # and with it numpy, so only when a release is named

    found = fullmatch(r"(\d{1,9})\.(\d{1,9})", word, ASCII)
    if not found or tuple(map(int, found.groups())) < FIRST:
        raise ValueError("give a release of oneDNN, {}.{} or a newer one: what older ones have is not known".format(*FIRST))
    return word


@dataclass(frozen=True)
class Knobs:
    release: str = knob("", release, "X.Y", "draw only what oneDNN X.Y has")
    ops: int = knob(30, positive, "N[,N...]", "the most ops a graph has (30)", product=True)
    case: Place = knob(None, place, "SEED:INDEX", "graph INDEX of SEED", bare=True)


def build(knobs: Knobs) -> Graph:
    from benchgraph.fuzz.generate import generate

    major, _, minor = knobs.release.partition(".")
    return generate(knobs.case.seed, knobs.case.index, knobs.ops, release=(int(major), int(minor)) if minor else None)


EXAMPLES = ("--fuzz 1:17", "--fuzz --ops=5 --release=3.2 1:0 1:1")
DRIVER = Driver("fuzz", "random graphs from the op table", Knobs, build, fill="reals", examples=EXAMPLES)
