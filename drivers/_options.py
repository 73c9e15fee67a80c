"""Options that several drivers share: how their values are read and spelt. Free of numpy, like everything --help needs."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from benchgraph.core.errors import InvalidArguments, did_you_mean
from benchgraph.options.knobs import knob
from benchgraph.options.parsers import Parse, dtype_name, natural
from benchgraph.options.problem import CannotExpress

from ._shapes import parse_shapes

if TYPE_CHECKING:
    from benchgraph.core.dtypes import DType

# Options of benchdnn's primitive drivers that change nothing here, and why.
INERT = {
    "--inplace": "the compiler finds out what may lie in place",
    "--impl": "there is one implementation",
    "--skip-impl": "there is one implementation",
    "--ctx-init": "BENCHGRAPH_COMPILE_JOBS says what compiles",
    "--ctx-exe": "--threads says how many threads execute",
    "--attr-scratchpad": "temporaries are the library's",
    "--attr-acc-mode": "sums are in f32 or s32, exact enough for every mode",
    "--attr-deterministic": "results are the same to the bit in any case; --mode=B looks",
}
PRIMITIVES_ONLY = ("e8m0", "f4_e2m1", "f4_e3m0", "f64", "s2", "u2", "u3")  # data types that primitives have, and oneDNN Graph has not
DIRECTIONS = ("FWD_B", "FWD_D", "FWD_I", "BWD_D", "BWD_DW", "BWD_W", "BWD_WB")


@dataclass(frozen=True)
class Colons:
    """Values joined by ':', one per tensor; a single one is meant for all tensors."""

    values: tuple[str, ...]

    def __str__(self) -> str:
        return ":".join(self.values)

    def of(self, count: int) -> tuple[str, ...]:
        """The values for `count` tensors."""
        return self.values * count if len(self.values) == 1 else self.values

    def each(self, count: int, option: str) -> tuple[str, ...]:
        """The values for `count` sources. Raises InvalidArguments unless there are one or as many."""
        if len(self.values) not in (1, count):
            fix = f"give one for all sources, or {count} joined by ':'"
            raise InvalidArguments(f"{len(self.values)} values for {count} sources", where=f"{option}={self}", fix=fix)
        return self.of(count)


def colons(parse: Callable[[str], str], tensors: int) -> Parse:
    """A parser for one value, or one per tensor."""

    def parse_all(word: str) -> Colons:
        values = tuple(parse(part) for part in word.split(":"))
        if len(values) not in (1, tensors):
            raise ValueError(f"there are {len(values)} values; give one for all tensors, or {tensors} joined by ':'")
        return Colons(values)

    return parse_all


def colons_of_all(parse: Callable[[str], str]) -> Parse:
    """A parser for one value, or one for each source, however many the problem has."""
    return lambda word: Colons(tuple(parse(part) for part in word.split(":")))


@dataclass(frozen=True)
class Strides:
    """Strides by tensor, () for those that have a tag instead."""

    tensors: tuple[tuple[int, ...], ...] = ()

    def __str__(self) -> str:
        return ":".join("x".join(map(str, strides)) for strides in self.tensors)

    def of(self, i: int, tag: str, default: str, option: str) -> tuple[int, ...] | None:
        """Those of tensor i, if it has any. Raises InvalidArguments where it has a tag too, other than the default."""
        found = self.tensors[i] if self.tensors else ()
        if found and tag != default:
            what = f"both the tag {tag} and strides for one tensor"
            raise InvalidArguments(what, where=f"{option}, --strides={self}", fix="leave one of them out")
        return found or None


def pattern(form: str, fix: str) -> Callable[[str], str]:
    """A parser for words of a form."""

    def parse(word: str) -> str:
        if not re.fullmatch(form, word, re.ASCII):
            raise ValueError(fix)
        return word

    return parse


sizes = pattern(r"\d+(x\d+)*", "give numbers joined by x, as in 1x128")
tag_word = pattern(r"[A-Za-z0-9]+", "give a tag such as abcd, acdb, nhwc, abx (row-major), axb (channels last) or any")


def data_type(word: str) -> str:
    """The name of a data type that benchdnn knows."""
    return word if word in PRIMITIVES_ONLY else dtype_name(word)


def dtype_of(name: str) -> DType:
    """The data type of a name. Raises CannotExpress for one that primitives alone have."""
    from benchgraph.core.dtypes import DType

    if name in PRIMITIVES_ONLY:
        raise CannotExpress(f"oneDNN Graph has no data type {name}", fix="use another one")
    return DType(name)


def check_direction(given: str, known: tuple[str, ...]) -> None:
    """Raise CannotExpress for a direction that the driver has not."""
    if given not in known:
        raise CannotExpress("no op goes this way", where=f"--dir={given}", fix=f"use {' or '.join(known)}")


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
            raise ValueError(did_you_mean(word, [*choices, *(aliases or {})]) or f"choose one of {', '.join(choices)}")
        return by_name[word.casefold()]

    return parse


# ---- whole knobs -----------------------------------------------------------------------------------------------------


def descriptor(parse: Parse, grammar: str, help: str) -> Any:
    return knob(None, parse, grammar, f"{help}; --case may be left out", bare=True)


def one_shape(example: str) -> Any:
    return descriptor(lambda text: parse_shapes(text, 1, 1, example), "NxCx...[_nNAME]", "a shape")


def dtypes(names: str) -> Any:
    """names: of the tensors, as in SRC:WEI:DST."""
    count = names.count(":") + 1
    return knob(Colons(("f32",)), colons(data_type, count), f"DT|{names}[,...]", "data types, of all or one each (f32)", product=True)


def one_dtype(default: str, help: str) -> Any:
    return knob(default, data_type, "DT[,...]", help, product=True)


def direction(*choices: str) -> Any:
    """The first one is the default."""
    return knob(choices[0], folded(*DIRECTIONS), "DIR[,...]", f"{', '.join(choices)} ({choices[0]})", product=True)


def src_dtype() -> Any:
    return one_dtype("", "data type of src, instead of --dt")


def dst_dtype() -> Any:
    return one_dtype("", "data type of dst, instead of --dt")


def number(default: float, help: str) -> Any:
    return knob(default, real, "X[,X...]", f"{help} ({default:g})", product=True)


def algorithm(default: str, names: tuple[str, ...], aliases: dict[str, str]) -> Any:
    return knob(default, folded(*names, aliases=aliases), "ALG[,...]", f"{', '.join(names)} ({default})", product=True)


def bias_dtype(default: str) -> Any:
    """default: what undef means."""
    return knob(
        "undef",
        lambda word: word if word == "undef" else data_type(word),
        "DT[,...]",
        f"data type of the bias (undef: {default})",
        product=True,
    )


def tag(default: str, help: str) -> Any:
    return knob(default, tag_word, "TAG[,...]", f"{help} ({default})", product=True)


def source_tags(default: str, names: str, help: str) -> Any:
    """names: of the tensors, as in SRC:WEI; with dots behind when their number is the problem's, as in SRC0:SRC1..."""
    parse = colons_of_all(tag_word) if names.endswith("...") else colons(tag_word, names.count(":") + 1)
    return knob(Colons(tuple(default.split(":"))), parse, f"TAG|{names}[,...]", f"{help} ({default})", product=True)


def minibatch() -> Any:
    return knob(0, natural, "N[,N...]", "batch instead of the descriptor's; 0 keeps it", product=True)


def strides(names: str) -> Any:
    """names: of the tensors, as in SRC:DST."""
    count = names.count(":") + 1

    def parse(word: str) -> Strides:
        tensors = word.split(":")
        if len(tensors) != count:
            raise ValueError(f"write {names}, where each is empty or numbers joined by x, as in {'8x1' + ':' * (count - 1)}")
        found = tuple(tuple(map(int, sizes(text).split("x"))) if text else () for text in tensors)
        return Strides(found) if any(found) else Strides()

    return knob(Strides(), parse, f"{names}[,...]", "strides, as in 64x1; empty: as the tag says", product=True)


def run_time_sizes() -> Any:
    """Masks of dims that benchdnn keeps from the library until it executes."""

    def parse(word: str) -> str:
        masks = [natural(mask) for mask in word.split(":")]
        return word if any(masks) else ""

    lacks = "a partition is compiled for sizes that are known"
    return knob("", parse, "MASK[:MASK][,...]", "dims whose sizes are known at run time alone", product=True, lacks=lacks)


def legacy_configuration() -> Any:
    return knob("", _configuration, "CFG[,...]", "older spelling of --dt, as u8s8s32", product=True)


_IN_CONFIGURATION = re.compile(r"bf16|f16|f32|f64|s32|s8|u8|f8_e5m2|f8_e4m3")


def _configuration(word: str) -> str:
    types = word.removesuffix("_wino")
    if _IN_CONFIGURATION.sub("", types) or len(_IN_CONFIGURATION.findall(types)) not in (1, 3):
        raise ValueError("give one data type, or those of src, weights and dst one after the other, as in u8s8s32")
    return word


def configured(dt: Colons, cfg: str) -> Colons:
    """The data types that --cfg says, else --dt."""
    return Colons(tuple(_IN_CONFIGURATION.findall(cfg))) if cfg else dt
