"""Descriptors of named sizes: mb8_ic64ih56oc64kh3n"resnet_50:res2a".

Names and numbers, with _ between them where one likes; behind n the problem's name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from benchgraph.core.errors import did_you_mean

LETTERS = "dhw"
MB = 2  # benchdnn's default


@dataclass(frozen=True)
class Grammar:
    """The names of sizes, and of numbers with a fraction. example: a descriptor, for messages; known: the names in words."""

    names: tuple[str, ...]
    example: str
    known: str
    fractions: tuple[str, ...] = ()


@dataclass
class Named:
    """What a descriptor says. title: the problem's name."""

    sizes: dict[str, int] = field(default_factory=dict)
    fractions: dict[str, float] = field(default_factory=dict)
    title: str = ""

    def need(self, name: str, what: str) -> int:
        """A size of 1 or more. Raises ValueError."""
        if name not in self.sizes:
            raise ValueError(f"{name} is missing; write {name}N, the number of {what}")
        if self.sizes[name] < 1:
            raise ValueError(f"{name} is 0; give it 1 or more")
        return self.sizes[name]

    def letters(self) -> str:
        """The spatial dims: from the first one that is named on; '' for none."""
        return next((LETTERS[at:] for at, letter in enumerate(LETTERS) if any(name[-1] == letter for name in self.sizes)), "")

    def inputs(self) -> tuple[int, ...]:
        """The input's spatial sizes, from id, ih and iw: one that is not named is that of the dim before it. () for none."""
        found = list[int]()
        for letter in self.letters():
            size = self.sizes.get(f"i{letter}", found[-1] if found else 0)
            if size < 1:
                raise ValueError(f"i{letter} is 0; give it 1 or more")
            found.append(size)
        return tuple(found)


def read_named(text: str, grammar: Grammar) -> Named:
    """Read a descriptor. Raises ValueError saying what is wrong, at which character, and how to mend it."""
    found, at = Named(), 0
    while at < len(text) and text[at] != "n":
        if text[at] == "_":
            at += 1
            continue
        name, number = _word(text[at:], grammar)
        where = f"at character {at + 1}: "
        if not name:
            raise ValueError(f"{where}'{text[at]}' where the name of a size is due; write sizes as in {grammar.example}")
        if name not in (*grammar.names, *grammar.fractions):
            known = did_you_mean(name, (*grammar.names, *grammar.fractions)) or f"there are {grammar.known}"
            raise ValueError(f"{where}no size is called '{name}'; {known}")
        if not number:
            raise ValueError(f"{where}{name} has no number; write {name}N")
        if name in found.sizes or name in found.fractions:
            raise ValueError(f"{where}{name} is given twice; leave one out")
        if name in grammar.fractions:
            found.fractions[name] = float(number)
        else:
            found.sizes[name] = int(number)
        at += len(name) + len(number)
    found.title = text[at + 1 :].strip('"')
    if at < len(text) and not found.title:
        raise ValueError(f"at character {at + 1}: the name after 'n' is empty; write nNAME, or leave the n out")
    return found


def _word(text: str, grammar: Grammar) -> tuple[str, str]:
    """The name and the number that a text begins with."""
    for name in grammar.fractions:
        if number := re.match(name + r"((?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)", text):
            return name, number[1]
    word = re.match(r"([a-zA-Z]*)([0-9]*)", text)
    assert word is not None, "the pattern matches the empty text"
    return word[1], word[2]


def spelt_inputs(inputs: tuple[int, ...]) -> str:
    """The input's spatial sizes, each of them."""
    return "".join(f"i{letter}{size}" for letter, size in zip(LETTERS[-len(inputs) :], inputs, strict=False) if inputs)


def spelt_words(words: list[str], title: str) -> str:
    """The parts of a descriptor that are not empty, and the problem's name."""
    return "_".join(word for word in words if word) + (f'_n"{title}"' if title else "")
