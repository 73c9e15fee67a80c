"""benchdnn's primitive attributes: scales and zero points of quantised arguments, and post-ops. Reading and spelling them only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from benchgraph.core.errors import did_you_mean
from benchgraph.harness.knobs import knob
from benchgraph.harness.parsers import dtype_name

from ._algs import BINARY_ALIASES, BINARY_NAMES, ELTWISE_ALIASES, ELTWISE_NAMES
from ._layout import check_tag
from ._options import integer, real

ARGS = ("src", "src0", "src1", "wei", "dst")
MASKS = {"common": 0, "per_dim_0": 1, "per_dim_1": 2, "per_dim_01": 3, "per_dim_2": 4, "per_dim_3": 8}  # bit i: dim i counts
POLICIES = (*MASKS, "per_oc", "per_tensor")


@dataclass(frozen=True)
class Quantisation:
    """Entries ARG:POLICY[:NUMBER]; number '' where the policy has many."""

    entries: tuple[tuple[str, str, str], ...] = ()

    def __str__(self) -> str:
        return "+".join(":".join(part for part in entry if part) for entry in self.entries)

    def of(self, arg: str) -> tuple[str, str]:
        """(policy, number) of an argument; ('common', '') when nothing was said."""
        names = (arg, "src") if arg == "src0" else (arg,)
        return next(((policy, number) for name, policy, number in self.entries if name in names), ("common", ""))


@dataclass(frozen=True)
class PostOp:
    """A name and its arguments, as they were spelt."""

    name: str
    args: tuple[str, ...] = ()

    def __str__(self) -> str:
        return ":".join((self.name, *self.args))

    def arg(self, i: int, default: str) -> str:
        return self.args[i] if i < len(self.args) else default


@dataclass(frozen=True)
class PostOps:
    ops: tuple[PostOp, ...] = ()

    def __str__(self) -> str:
        return "+".join(map(str, self.ops))


def scales() -> Any:
    help = "scales of quantised arguments; per_oc, for wei: 1/4, 1/2 and 1 in turn"
    return knob(Quantisation(), _scales, "ARG:POLICY[:NUMBER][+...][,...]", help, product=True)


def zero_points() -> Any:
    return knob(Quantisation(), _zero_points, "ARG:common:INTEGER[+...][,...]", "zero points of quantised arguments", product=True)


def post_ops() -> Any:
    help = "what follows: sum, an eltwise algorithm with alpha and beta, add:DT[:POLICY] and its like, prelu[:POLICY]"
    return knob(PostOps(), parse_post_ops, "OP[:ARG...][+...][,...]", help, product=True)


def _scales(word: str) -> Quantisation:
    return Quantisation(tuple(_entry(part, ("common", "per_oc"), real) for part in word.split("+") if word))


def _zero_points(word: str) -> Quantisation:
    return Quantisation(tuple(_entry(part, ("common",), integer) for part in word.split("+") if word))


def _entry(text: str, policies: tuple[str, ...], parse: Any) -> tuple[str, str, str]:
    arg, _, rest = text.partition(":")
    policy, _, number = rest.partition(":")
    if arg not in ARGS:
        raise ValueError(f"'{text}': " + (did_you_mean(arg, ARGS) or f"begin with one of {', '.join(ARGS)}"))
    if policy not in policies:
        raise ValueError(f"'{text}': " + (did_you_mean(policy, policies) or f"give a policy after '{arg}:', {' or '.join(policies)}"))
    if policy != "common" and (number or arg != "wei"):
        raise ValueError(f"'{text}': {policy} is for wei, without a number")
    try:
        parse(number) if policy == "common" else None
    except ValueError as bad:
        raise ValueError(f"'{text}': {bad} after '{arg}:{policy}:'") from None
    return arg, policy, number


def parse_post_ops(word: str) -> PostOps:
    """Entries joined by +, each NAME[:ARG...], where `eltwise:` and `binary:` may stand in front of a name. Raises ValueError."""
    return PostOps(tuple(_post_op(part) for part in word.split("+") if word))


def _post_op(text: str) -> PostOp:
    name, *args = text.split(":")
    if name in ("eltwise", "binary") and args:
        name, *args = args
    name = (ELTWISE_ALIASES | BINARY_ALIASES).get(name, name)
    known = ("sum", "prelu", "dw", *ELTWISE_NAMES, *BINARY_NAMES)
    if name not in known:
        raise ValueError(f"'{text}': " + (did_you_mean(name, known) or "no such post-op; there are sum, prelu, relu, add, ..."))
    kind = "eltwise" if name in ELTWISE_NAMES else "binary" if name in BINARY_NAMES else name
    readers = {
        "sum": (real, integer, dtype_name),
        "eltwise": (real, real, real),
        "binary": (dtype_name, _policy, check_tag),
        "prelu": (_policy,),
        "dw": (str, dtype_name),
    }[kind]
    if len(args) > len(readers):
        raise ValueError(f"'{text}': {len(args)} arguments; {name} takes up to {len(readers)}")
    if kind == "binary" and not args:
        raise ValueError(f"'{text}': the dtype of the second operand is missing, as in {name}:f32")
    for read, arg in zip(readers, args, strict=False):
        try:
            read(arg)
        except ValueError as bad:
            raise ValueError(f"'{text}': '{arg}': {bad}") from None
    return PostOp(name, tuple(args))


def _policy(word: str) -> str:
    if word not in POLICIES and not word.isdecimal():
        raise ValueError(did_you_mean(word, POLICIES) or f"choose one of {', '.join(POLICIES)}, or a bit mask of dims")
    return word


def masked(policy: str, shape: tuple[int, ...], channels: int) -> tuple[int, ...]:
    """The shape with 1 for every dim that the policy leaves out. channels: the dim that per_oc means."""
    if policy == "per_tensor":
        return shape
    mask = 1 << channels if policy == "per_oc" else MASKS[policy] if policy in MASKS else int(policy)
    return tuple(size if mask >> dim & 1 else 1 for dim, size in enumerate(shape))
