"""benchdnn's primitive attributes: scales and zero points of quantised arguments, post-ops and the rest. Reading and spelling them only.

Whatever benchdnn reads is read here. What no op of oneDNN Graph means is found out when the graph is made, and skips the case.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from benchgraph.core.errors import did_you_mean
from benchgraph.core.printable import shortened
from benchgraph.options.knobs import knob
from benchgraph.options.parsers import fpmath, natural
from benchgraph.options.problem import CannotExpress

from ._algs import BINARY_ALIASES, BINARY_NAMES, ELTWISE_ALIASES, ELTWISE_NAMES
from ._options import data_type, integer, pattern, real, sizes, tag_word
from ._shapes import spelt

# benchdnn's names of arguments
ARGS = ("src", "src0", "src1", "wei", "bia", "dst", "diff_src", "diff_wei", "diff_dst")
ARGS_OF_FEW = ("wei_up", "wei_down", "attr_post_op_dw_wei", "attr_post_op_dw_dst")  # of the gated MLP, and of a depthwise post-op
WHOLE = ("common", "host_scalar")  # one number for the whole tensor
CHOSEN_AT_RUN_TIME = ("mx", "dynamic_fp")  # the library computes scales of groups from the values
NAMED = (*WHOLE, "per_oc", "per_ocic", "per_tensor", *CHOSEN_AT_RUN_TIME)
SHOWN = (*NAMED[:5], "per_dim_0", "per_dim_1", "per_dim_01")


@dataclass(frozen=True)
class Entry:
    """ARG:POLICY[:NUMBER][:DT[:GROUPS]] as it was spelt; '' for what was left out. policy may be a bit mask of dims."""

    arg: str
    policy: str
    number: str = ""
    dtype: str = ""
    groups: str = ""

    def __str__(self) -> str:
        return ":".join(part for part in (self.arg, self.policy, self.number, self.dtype, self.groups) if part)

    @property
    def is_whole(self) -> bool:
        return self.policy in WHOLE or (self.policy.isdecimal() and int(self.policy) == 0)


@dataclass(frozen=True)
class Quantisation:
    entries: tuple[Entry, ...] = ()

    def __str__(self) -> str:
        return "+".join(map(str, self.entries))

    def of(self, arg: str) -> Entry | None:
        """What is said of an argument; the last word counts."""
        names = (arg, "src") if arg == "src0" else (arg, "src0") if arg == "src" else (arg,)
        return next((entry for entry in reversed(self.entries) if entry.arg in names), None)


@dataclass(frozen=True)
class PostOp:
    """A name and its arguments, as they were spelt."""

    name: str
    args: tuple[str, ...] = ()

    def __str__(self) -> str:
        return ":".join((self.name, *self.args))

    def arg(self, i: int, default: str) -> str:
        return self.args[i] if i < len(self.args) and self.args[i] else default


@dataclass(frozen=True)
class PostOps:
    ops: tuple[PostOp, ...] = ()

    def __str__(self) -> str:
        return "+".join(map(str, self.ops))


# ---- whole knobs -----------------------------------------------------------------------------------------------------


def scales() -> Any:
    help = "scales of quantised arguments: common:X, or per_oc, per_dim_N: 1/4, 1/2, 1 in turn; of GROUPS: data"
    return knob(Quantisation(), _quantisation(real), "ARG:POLICY[:X][:DT[:GROUPS]][+...][,...]", help, product=True)


def zero_points() -> Any:
    help = "zero points of quantised arguments: common:N, or per_dim_N: 1, 2, 3 in turn; of GROUPS: data"
    return knob(Quantisation(), _quantisation(integer), "ARG:POLICY[:N][:DT[:GROUPS]][+...][,...]", help, product=True)


def post_ops() -> Any:
    help = "sum, an eltwise algorithm with its numbers, add:DT[:POLICY[:TAG]] and its like, prelu[:POLICY]"
    return knob(PostOps(), parse_post_ops, "OP[:ARG...][+...][,...]", help, product=True)


def math_mode() -> Any:
    return knob("", fpmath, "MODE[:BOOL][,...]", "strict, bf16, f16, tf32, any; true: integers too", product=True)


def dropout() -> Any:
    lacks = "Dropout takes its probability, seed and offset as inputs, not as numbers of the case"
    return knob("", _dropout, "P[:SEED[:TAG]][,...]", "a share P of the results is dropped", product=True, lacks=lacks)


def rounding_mode() -> Any:
    help = "environment (default) or stochastic"
    return knob("", _rounding, "ARG:MODE[+...][,...]", help, product=True, lacks="no op rounds at random")


def reductions() -> Any:
    help = "sums of groups that are known beforehand"
    return knob("", _reductions, "ARG:POLICY:DT:GROUPS[+...][,...]", help, product=True, lacks="no op takes sums that are known beforehand")


# ---- scales and zero points ------------------------------------------------------------------------------------------


def _quantisation(number: Callable[[str], object]) -> Callable[[str], Quantisation]:
    return lambda word: Quantisation(tuple(_entry(part, number) for part in word.split("+") if part))


def _arg(text: str, arg: str) -> str:
    if arg not in (*ARGS, *ARGS_OF_FEW) and not re.fullmatch(r"msrc\d+", arg, re.ASCII):
        raise ValueError(f"'{text}': " + (did_you_mean(arg, ARGS) or f"begin with one of {', '.join(ARGS[:6])}"))
    return arg


def _entry(text: str, number: Callable[[str], object]) -> Entry:
    """An entry. A * behind a number, which older batch files have, says nothing any more."""
    arg, *rest = text.split(":")
    found = Entry(_arg(text, arg), rest.pop(0) if rest else "")
    if not _is_policy(found.policy):
        raise ValueError(f"'{text}': " + (did_you_mean(found.policy, SHOWN) or f"give a policy after '{arg}:', common or per_oc"))
    given = ""
    if found.is_whole:
        given = (rest.pop(0) if rest else "").removesuffix("*")
        _read(text, number, given, f" after '{arg}:{found.policy}:'")
    elif rest and rest[0].endswith("*"):
        rest.pop(0)
    elif rest and re.match(r"[-+.\d]", rest[0]):
        raise ValueError(f"'{text}': {found.policy} has many numbers of its own; leave {rest[0]} out")
    dtype, groups, *more = (*rest, "", "")
    if any(more):
        raise ValueError(f"'{text}': more than ARG:POLICY:NUMBER:DT:GROUPS is given; leave the rest out")
    if dtype:
        _read(text, data_type, dtype, "")
    if groups:
        _read(text, sizes, groups, "")
    return Entry(arg, found.policy, given, dtype, groups)


def _read(text: str, read: Callable[[str], object], word: str, where: str) -> None:
    try:
        read(word)
    except ValueError as bad:
        raise ValueError(f"'{text}': {bad}{where}" if where else f"'{text}': '{word}': {bad}") from None


def _is_policy(word: str) -> bool:
    return word in NAMED or re.fullmatch(r"per_dim_\d+|\d{1,1000}", word, re.ASCII) is not None


def _policy(word: str) -> str:
    if not _is_policy(word):
        raise ValueError(did_you_mean(word, SHOWN) or f"choose one of {', '.join(SHOWN)}, or a bit mask of dims")
    return word


def dims_of(policy: str, rank: int, channels: int) -> tuple[int, ...]:
    """The dims along which a policy has a number of its own. channels: the dim that per_oc means, and per_ocic with the one before it."""
    if policy in WHOLE:
        return ()
    if policy == "per_tensor":
        return tuple(range(rank))
    if policy in ("per_oc", "per_ocic"):
        return (channels,) if policy == "per_oc" else tuple(sorted({max(channels - 1, 0), max(channels, 1)}))
    mask = int(policy) if policy.isdecimal() else sum(1 << int(dim) for dim in set(policy.removeprefix("per_dim_")))
    return tuple(dim for dim in range(max(rank, mask.bit_length())) if mask >> dim & 1)


def masked(policy: str, shape: tuple[int, ...], channels: int) -> tuple[int, ...]:
    """The shape with 1 for every dim that the policy leaves out. channels: the dim that per_oc means.

    Raises CannotExpress for a dim that the shape lacks.
    """
    kept = dims_of(policy, len(shape), channels)
    if kept and kept[-1] >= len(shape):
        what = f"dst {spelt(shape)} has no dim {kept[-1]}, which {shortened(policy)} names"
        raise CannotExpress(what, fix="name its dims alone, counted from 0")
    return tuple(size if dim in kept else 1 for dim, size in enumerate(shape))


# ---- post-ops --------------------------------------------------------------------------------------------------------


def parse_post_ops(word: str) -> PostOps:
    """Entries joined by +, each NAME[:ARG...], where `eltwise:` and `binary:` may stand in front of a name. Raises ValueError."""
    return PostOps(tuple(_post_op(part) for part in word.split("+") if part))


def _post_op(text: str) -> PostOp:
    name, *args = text.split(":")
    if name in ("eltwise", "binary") and args:
        name, *args = args
    if name.startswith("dw_k"):  # in older batch files
        name, args = "dw", [name.removeprefix("dw_"), *args]
    name = (ELTWISE_ALIASES | BINARY_ALIASES).get(name, name)
    known = ("sum", "prelu", "dw", *ELTWISE_NAMES, *BINARY_NAMES)
    if name not in known:
        raise ValueError(f"'{text}': " + (did_you_mean(name, known) or "no such post-op; there are sum, prelu, relu, add, ..."))
    kind = name if name == "select" else "eltwise" if name in ELTWISE_NAMES else "binary" if name in BINARY_NAMES else name
    readers: tuple[Callable[[str], object], ...] = {
        "sum": (real, integer, data_type),
        "eltwise": (real, real, real),
        "binary": (data_type, _policy, tag_word, sizes),
        "select": (_operand, _condition),
        "prelu": (_policy,),
        "dw": (pattern(r"k\d+s[1-9]\d*p\d+", "give kernel, stride and padding, as in dw:k3s1p1"), data_type),
    }[kind]
    if len(args) > len(readers):
        raise ValueError(f"'{text}': {len(args)} arguments; {name} takes up to {len(readers)}")
    if kind in ("binary", "select") and not args:
        raise ValueError(f"'{text}': the dtype of the second operand is missing, as in {name}:f32")
    if kind == "dw" and not args:
        raise ValueError(f"'{text}': its kernel, stride and padding are missing, as in dw:k3s1p1")
    for read, arg in zip(readers, args, strict=False):
        try:
            read(arg)
        except ValueError as bad:
            raise ValueError(f"'{text}': '{arg}': {bad}") from None
    return PostOp(name, tuple(args))


def _operand(word: str) -> None:
    """DT[.POLICY[.TAG]], as select has it."""
    dtype, *placed = word.split(".")
    data_type(dtype)
    _condition(".".join(placed))


def _condition(word: str) -> None:
    """[POLICY[.TAG]]"""
    policy, _, tag = word.partition(".")
    if policy:
        _policy(policy)
    if tag:
        tag_word(tag)


# ---- the others: the default where nothing is asked for ---------------------------------------------------------------


def _dropout(word: str) -> str:
    share, *rest = word.split(":")
    if not 0 <= real(share) <= 1:
        raise ValueError("give a share of 0 to 1")
    for read, text in zip((integer, tag_word, natural), rest, strict=False):
        read(text)
    return word if real(share) else ""


def _rounding(word: str) -> str:
    modes = []
    for part in word.split("+"):
        arg, mode = (*part.split(":"), "")[:2]
        _arg(part, arg)
        if mode not in ("environment", "stochastic"):
            raise ValueError(did_you_mean(mode, ("environment", "stochastic")) or f"'{part}': give ARG:environment or ARG:stochastic")
        modes.append(mode)
    return word if "stochastic" in modes else ""


def _reductions(word: str) -> str:
    for part in word.split("+"):
        arg, policy, dtype, groups, *more = (*part.split(":"), "", "", "")
        _arg(part, arg)
        _policy(policy)
        if not dtype or not groups or any(more):
            raise ValueError(f"'{part}': write ARG:POLICY:DT:GROUPS, as in src:per_tensor:s32:1x64")
        data_type(dtype)
        sizes(groups)
    return word


@dataclass(frozen=True)
class AttributeKnobs:
    """The options of attributes, which all drivers of primitives have: behind their own, in front of the descriptor."""

    attr_scales: Quantisation = scales()
    attr_zero_points: Quantisation = zero_points()
    attr_post_ops: PostOps = post_ops()
    attr_fpmath: str = math_mode()
    attr_dropout: str = dropout()
    attr_rounding_mode: str = rounding_mode()
    attr_precomputed_reductions: str = reductions()
