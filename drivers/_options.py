"""Options that several drivers share: how their values are read and spelt. Free of numpy, like everything --help needs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from benchgraph.core.errors import did_you_mean
from benchgraph.harness.knobs import knob
from benchgraph.harness.parsers import Parse, dtype_name, natural

from ._layout import check_tag
from ._shapes import parse_shapes


@dataclass(frozen=True)
class Colons:
    """Values joined by ':', one per tensor; a single one is meant for all tensors."""

    values: tuple[str, ...]

    def __str__(self) -> str:
        return ":".join(self.values)

    def of(self, count: int) -> tuple[str, ...]:
        """The values for `count` tensors."""
        return self.values * count if len(self.values) == 1 else self.values


def colons(parse: Callable[[str], str], tensors: int) -> Parse:
    """A parser for one value, or one per tensor."""

    def parse_all(word: str) -> Colons:
        values = tuple(parse(part) for part in word.split(":"))
        if len(values) not in (1, tensors):
            raise ValueError(f"there are {len(values)} values; give one for all tensors, or {tensors} joined by ':'")
        return Colons(values)

    return parse_all


def real(word: str) -> float:
    """A number."""
    try:
        return float(word)
    except ValueError:
        raise ValueError("give a number") from None


def integer(word: str) -> int:
    try:
        return int(word)
    except ValueError:
        raise ValueError("give an integer") from None


def folded(*choices: str, aliases: dict[str, str] | None = None) -> Parse:
    """One of the choices, written in any case. aliases: other names, in lower case -> choice."""
    by_name = {c.casefold(): c for c in choices} | (aliases or {})

    def parse(word: str) -> str:
        if word.casefold() not in by_name:
            raise ValueError(did_you_mean(word, by_name) or f"choose one of {', '.join(choices)}")
        return by_name[word.casefold()]

    return parse


# ---- whole knobs -----------------------------------------------------------------------------------------------------


def descriptor(parse: Parse, grammar: str, help: str) -> Any:
    return knob(None, parse, grammar, f"{help}; runs it with the options so far, and may stand without --case", bare=True)


def one_shape(example: str) -> Any:
    return descriptor(lambda text: parse_shapes(text, 1, 1, example), "NxCx...[_nNAME]", "a shape")


def dtypes(names: str) -> Any:
    """names: of the tensors, as in SRC:WEI:DST."""
    count = names.count(":") + 1
    return knob(
        Colons(("f32",)), colons(dtype_name, count), f"DT|{names}[,...]", "data types: one for all tensors, or one each (f32)", product=True
    )


def one_dtype(default: str, help: str) -> Any:
    return knob(default, dtype_name, "DT[,...]", help, product=True)


def direction(*choices: str) -> Any:
    """The first one is the default."""
    return knob(choices[0], folded(*choices), "DIR[,...]", f"{', '.join(choices)} ({choices[0]})", product=True)


def src_dtype() -> Any:
    return one_dtype("", "data type of src, instead of what --dt says")


def dst_dtype() -> Any:
    return one_dtype("", "data type of dst, instead of what --dt says")


def number(default: float, help: str) -> Any:
    return knob(default, real, "X[,X...]", f"{help} ({default:g})", product=True)


def algorithm(default: str, names: tuple[str, ...], aliases: dict[str, str]) -> Any:
    return knob(default, folded(*names, aliases=aliases), "ALG[,...]", f"{', '.join(names)} ({default})", product=True)


def bias_dtype(default: str) -> Any:
    """default: what undef means."""
    return knob(
        "undef",
        lambda word: word if word == "undef" else dtype_name(word),
        "DT[,...]",
        f"data type of the bias; undef: {default}",
        product=True,
    )


def tag(default: str, help: str) -> Any:
    return knob(default, check_tag, "TAG[,...]", f"{help}: acdb, nhwc, axb, ... ({default})", product=True)


def minibatch() -> Any:
    return knob(0, natural, "N[,N...]", "replace the batch of the descriptor; 0 = keep it", product=True)
