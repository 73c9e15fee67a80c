"""How an op is tested: on which data and samples, and by which laws."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from benchgraph.core.attrs import NO_ATTRS, Attrs
from benchgraph.core.dtypes import DType
from benchgraph.core.tensor import Shape, TensorType
from benchgraph.ops.fill_rules.noise import Noise
from benchgraph.ops.fills import PLAIN
from benchgraph.ops.spec.call import Array, Call, Domain


@dataclass(frozen=True)
class Sample:
    """A small concrete use, for tests and documentation. why: the mistake that it would reveal.

    dtypes: input dtypes, f32 when empty. out_dtypes: where they cannot be inferred (TypeCast, Quantize).
    """

    shapes: tuple[Shape, ...]
    attrs: Attrs = NO_ATTRS
    dtypes: tuple[DType, ...] = ()
    out_dtypes: tuple[DType, ...] = ()
    why: str = "plain"


@dataclass(frozen=True)
class Law:
    """A property of the outputs of any correct implementation, independent of the reference.

    holds(call, ins, outs, rtol): float64 arrays, and a relative tolerance that fits the dtype.
    """

    name: str
    holds: Callable[[Call, tuple[Array, ...], tuple[Array, ...], float], bool]


@dataclass(frozen=True)
class Filling:
    """Data for a tensor, described for people. make(t, noise): the elements of a tensor of this type, in its numpy dtype.

    Mostly that is the port's own tensor; a displacement rule may fill one earlier in the graph, of another shape and dtype.
    """

    description: str
    make: Callable[[TensorType, Noise], Array]


FillRule: TypeAlias = Callable[[Call, int], Filling]


@dataclass(frozen=True, kw_only=True)
class Testing:
    """fill and domain give the data of an input port, of a call whose operands may be quantised though the op's are not."""

    fill: FillRule  # (call, port): what mode C fills an input with, as benchdnn does
    samples: tuple[Sample, ...]
    laws: tuple[Law, ...]
    domain: Domain = PLAIN  # real numbers as the op has them in use, float64 or the port's integer type
    gradient_of: str = ""  # of a backward op: the forward kind. Tests hold every output `diff_x` to its numerical derivative by x
    fills_quantised: bool = False  # an operand that is the result of a Dequantize is filled as this op's `fill` says
    factors: tuple[float, ...] = ()  # the values of an operand whose partner is computed in the graph; (): as `fill` says
    zero_limit: Callable[[Call], float] = lambda call: 0.30  # the largest share of zeros with which a passing dst is trusted
    guaranteed_zeros: Callable[[Call], float] = lambda call: 0.0  # the share of dst that is 0 for any input, so that its zeros do count
