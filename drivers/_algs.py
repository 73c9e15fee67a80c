"""benchdnn's eltwise and binary algorithms as ops of oneDNN Graph. What no op or chain of ops means is refused with the reason.

A formula gets a builder, its operands (of one dtype) and the numbers alpha and beta.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import isclose
from typing import TYPE_CHECKING, TypeAlias

from benchgraph.options.problem import CannotExpress

if TYPE_CHECKING:
    from benchgraph.core.tensor import LogicalTensor
    from benchgraph.graph import GraphBuilder


@dataclass(frozen=True)
class Numbers:
    alpha: float = 0.0
    beta: float = 0.0


Forward: TypeAlias = "Callable[[GraphBuilder, LogicalTensor, Numbers], LogicalTensor]"
Backward: TypeAlias = "Callable[[GraphBuilder, LogicalTensor, LogicalTensor, Numbers], LogicalTensor]"


@dataclass(frozen=True)
class Eltwise:
    """An algorithm. numbers: how many of alpha and beta it takes.

    backward(b, src, diff_dst, numbers) -> diff_src, and backward_dst the same from dst, for the algorithm named with _dst; None: no op.
    """

    forward: Forward
    backward: Backward | None = None
    backward_dst: Backward | None = None
    numbers: int = 0


def _plain(kind: str) -> Forward:
    return lambda b, x, n: b.op(kind, x)


def _back(kind: str) -> Backward:
    return lambda b, x, d, n: b.op(kind, x, d)


def _back_by(kind: str, use_dst: bool) -> Backward:
    return lambda b, x, d, n: b.op(kind, x, d, use_dst=use_dst)


def _gelu(mode: str) -> Eltwise:
    return Eltwise(lambda b, x, n: b.op("GELU", x, mode=mode), lambda b, x, d, n: b.op("GELUBackward", x, d, mode=mode))


def _clamp(b: GraphBuilder, x: LogicalTensor, n: Numbers) -> LogicalTensor:
    if n.alpha > n.beta:
        raise CannotExpress(f"clip from {n.alpha:g} to {n.beta:g}", fix="give alpha <= beta")
    return b.op("Clamp", x, min=n.alpha, max=n.beta)


def _clamp_back(use_dst: bool) -> Backward:
    return lambda b, x, d, n: b.op("ClampBackward", x, d, min=n.alpha, max=n.beta, use_dst=use_dst)


def _elu(b: GraphBuilder, x: LogicalTensor, n: Numbers) -> LogicalTensor:
    if n.alpha < 0:
        raise CannotExpress(f"elu with alpha {n.alpha:g}", fix="Elu takes none below 0")
    return b.op("Elu", x, alpha=n.alpha)


def _elu_back(use_dst: bool) -> Backward:
    return lambda b, x, d, n: b.op("EluBackward", x, d, alpha=n.alpha, use_dst=use_dst)


def _relu(b: GraphBuilder, x: LogicalTensor, n: Numbers) -> LogicalTensor:
    return b.op("LeakyReLU", x, alpha=n.alpha) if n.alpha else b.op("ReLU", x)


def _relu_back(use_dst: bool) -> Backward:
    def backward(b: GraphBuilder, x: LogicalTensor, d: LogicalTensor, n: Numbers) -> LogicalTensor:
        if n.alpha:
            raise CannotExpress("the gradient of relu with a slope has no op", fix="use alpha 0")
        return b.op("ReLUBackward", x, d, use_dst=use_dst)

    return backward


def _hard_swish(kind: str, n: Numbers) -> None:
    given = n.alpha or n.beta
    if given and not (isclose(n.alpha, 1 / 6, rel_tol=1e-3) and isclose(n.beta, 1 / 2, rel_tol=1e-3)):
        raise CannotExpress(f"{kind} has alpha 1/6 and beta 1/2 built in", fix="give these, or none")


def _hard_swish_forward(b: GraphBuilder, x: LogicalTensor, n: Numbers) -> LogicalTensor:
    _hard_swish("HardSwish", n)
    return b.op("HardSwish", x)


def _hard_swish_back(b: GraphBuilder, x: LogicalTensor, d: LogicalTensor, n: Numbers) -> LogicalTensor:
    _hard_swish("HardSwishBackward", n)
    return b.op("HardSwishBackward", x, d)


def _soft_plus(b: GraphBuilder, x: LogicalTensor, n: Numbers) -> LogicalTensor:
    if not n.alpha:
        raise CannotExpress("soft_relu divides by alpha", fix="give an alpha other than 0")
    return b.op("SoftPlus", x, beta=n.alpha)


def _pow(b: GraphBuilder, x: LogicalTensor, n: Numbers) -> LogicalTensor:
    if n.alpha != 1:
        raise CannotExpress("pow is alpha * x^beta, and Pow has no alpha", fix="give alpha 1")
    return b.op("Pow", x, beta=n.beta)


def _sigmoid_gate(n: Numbers) -> None:
    if n.alpha != 1:
        raise CannotExpress("swish is x * sigmoid(alpha * x), and Sigmoid has no alpha", fix="give alpha 1")


def _swish(b: GraphBuilder, x: LogicalTensor, n: Numbers) -> LogicalTensor:
    _sigmoid_gate(n)
    return b.op("Multiply", x, b.op("Sigmoid", x))


def _swish_back(b: GraphBuilder, x: LogicalTensor, d: LogicalTensor, n: Numbers) -> LogicalTensor:
    """d * s + d * x * s'(x), with s = sigmoid(x)."""
    _sigmoid_gate(n)
    gate = b.op("Sigmoid", x)
    through_gate = b.op("SigmoidBackward", gate, b.op("Multiply", d, x), use_dst=True)
    return b.op("Add", b.op("Multiply", d, gate), through_gate)


def _linear(b: GraphBuilder, x: LogicalTensor, n: Numbers) -> LogicalTensor:
    raise CannotExpress("no op multiplies by an attribute, as linear would need", fix="use a binary op with a tensor")


def _hard_sigmoid_back(b: GraphBuilder, x: LogicalTensor, d: LogicalTensor, n: Numbers) -> LogicalTensor:
    return b.op("HardSigmoidBackward", x, d, alpha=n.alpha, beta=n.beta)


_CLIP_V2 = Eltwise(_clamp, _clamp_back(use_dst=False), _clamp_back(use_dst=True), numbers=2)

ELTWISE: dict[str, Eltwise] = {
    "abs": Eltwise(_plain("Abs"), _back("AbsBackward")),
    "clip": Eltwise(_clamp, numbers=2),  # its gradient is 1 at beta itself, where that of clip_v2 and of ClampBackward is 0
    "clip_v2": _CLIP_V2,
    "elu": Eltwise(_elu, _elu_back(use_dst=False), _elu_back(use_dst=True), numbers=1),
    "exp": Eltwise(_plain("Exp"), lambda b, x, d, n: b.op("Multiply", d, b.op("Exp", x)), lambda b, x, d, n: b.op("Multiply", d, x)),
    "gelu_erf": _gelu("gelu_erf"),
    "gelu_tanh": _gelu("gelu_tanh"),
    "hardsigmoid": Eltwise(lambda b, x, n: b.op("HardSigmoid", x, alpha=n.alpha, beta=n.beta), _hard_sigmoid_back, numbers=2),
    "hardswish": Eltwise(_hard_swish_forward, _hard_swish_back, numbers=2),
    "linear": Eltwise(_linear, numbers=2),
    "log": Eltwise(_plain("Log"), lambda b, x, d, n: b.op("Divide", d, x)),
    "logistic": Eltwise(_plain("Sigmoid"), _back_by("SigmoidBackward", use_dst=False), _back_by("SigmoidBackward", use_dst=True)),
    "mish": Eltwise(_plain("Mish"), _back("MishBackward")),
    "pow": Eltwise(_pow, numbers=2),
    "relu": Eltwise(_relu, _relu_back(use_dst=False), _relu_back(use_dst=True), numbers=1),
    "round": Eltwise(_plain("Round")),
    "soft_relu": Eltwise(_soft_plus, lambda b, x, d, n: b.op("SoftPlusBackward", x, d, beta=n.alpha), numbers=1),
    "sqrt": Eltwise(_plain("Sqrt"), _back_by("SqrtBackward", use_dst=False), _back_by("SqrtBackward", use_dst=True)),
    "square": Eltwise(_plain("Square"), lambda b, x, d, n: b.op("Multiply", d, b.op("Add", x, x))),
    "swish": Eltwise(_swish, _swish_back, numbers=1),
    "tanh": Eltwise(_plain("Tanh"), _back_by("TanhBackward", use_dst=False), _back_by("TanhBackward", use_dst=True)),
}
ELTWISE_NAMES = (*ELTWISE, *(f"{name}_dst" for name, alg in ELTWISE.items() if alg.backward_dst is not None))
ELTWISE_ALIASES = {f"eltwise_{name}": name for name in ELTWISE_NAMES} | {"srelu": "soft_relu"}

BINARY_KINDS = {
    "add": "Add",
    "div": "Divide",
    "ge": "GreaterEqual",
    "max": "Maximum",
    "min": "Minimum",
    "mul": "Multiply",
    "sub": "Subtract",
}
BINARY_NAMES = (*BINARY_KINDS, "eq", "gt", "le", "lt", "ne", "select")
BINARY_ALIASES = {f"binary_{name}": name for name in BINARY_NAMES}


def eltwise(name: str, numbers: Numbers) -> Eltwise:
    """The algorithm, if it takes these numbers. Raises CannotExpress for a number that it would not look at, as benchdnn skips them."""
    found = ELTWISE[name.removesuffix("_dst")]
    for word, value, place in (("alpha", numbers.alpha, 1), ("beta", numbers.beta, 2)):
        if value and found.numbers < place:
            raise CannotExpress(f"{name} takes no {word}, but it is {value:g}", fix=f"leave {word} out")
    return found


def gradient(name: str, numbers: Numbers) -> Backward:
    """The gradient of an algorithm. Raises CannotExpress when no op or chain of ops computes it."""
    found = eltwise(name, numbers)
    backward = found.backward_dst if name.endswith("_dst") else found.backward
    if backward is None:
        mend = "use clip_v2, which differs at beta alone" if name == "clip" else "use --dir=FWD_D"
        raise CannotExpress(f"the gradient of {name} has no op", fix=mend)
    return backward


def binary(b: GraphBuilder, name: str, x: LogicalTensor, y: LogicalTensor) -> LogicalTensor:
    """x and y, of one dtype and broadcast as numpy does. ge and le make booleans. Raises CannotExpress."""
    if name == "le":
        return b.op(BINARY_KINDS["ge"], y, x)
    if name not in BINARY_KINDS:
        raise CannotExpress(f"no op means {name}: of the comparisons there is GreaterEqual alone", fix="use ge or le")
    return b.op(BINARY_KINDS[name], x, y)
