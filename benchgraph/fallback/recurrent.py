"""Rows of the table of numpy functions: recurrent networks. onnx's reference, which leaves out lengths and activations, judges none."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any, TypeAlias

import numpy as np

from benchgraph.fallback.function import Array, Function
from benchgraph.fallback.row import SUMS, NumpyOp, Shapes, given
from benchgraph.fallback.special import sigmoid

Activation: TypeAlias = Callable[[Any], Any]
# Each with the defaults of the numbers that it takes: alpha, beta
ACTIVATIONS: dict[str, tuple[Callable[..., Any], tuple[float, ...]]] = {
    "relu": (lambda x: np.maximum(x, 0), ()),
    "tanh": (np.tanh, ()),
    "sigmoid": (sigmoid, ()),
    "softsign": (lambda x: x / (1 + np.abs(x)), ()),
    "softplus": (lambda x: np.logaddexp(x, 0), ()),
    "leakyrelu": (lambda x, a: np.where(x < 0, a * x, x), (0.01,)),
    "thresholdedrelu": (lambda x, a: np.where(x > a, x, 0), (1.0,)),
    "elu": (lambda x, a: np.where(x < 0, a * np.expm1(np.minimum(x, 0)), x), (1.0,)),
    "scaledtanh": (lambda x, a, b: a * np.tanh(b * x), (1.0, 1.0)),
    "hardsigmoid": (lambda x, a, b: np.clip(a * x + b, 0, 1), (0.2, 0.5)),
    "affine": (lambda x, a, b: a * x + b, (1.0, 0.0)),
}


@dataclass(frozen=True)
class Direction:
    """The weights of one direction: w (gates * hidden, input), r (gates * hidden, hidden), biases of both, one after the other, peepholes
    (None if there are none). of: its activations.
    """

    f: Function
    w: Array
    r: Array
    biases: Array
    peepholes: Array | None
    of: Sequence[Activation]
    gates: int

    def sums(self, x: Array, hidden: Array) -> tuple[list[Array], list[Array]]:
        """What each gate gets from the input, and from the hidden state."""
        w_bias, r_bias = np.split(self.biases, 2)
        return np.split(x @ self.w.T + w_bias, self.gates, -1), np.split(hidden @ self.r.T + r_bias, self.gates, -1)


States: TypeAlias = tuple[Array, ...]  # hidden, and the cell's of an LSTM; (batch, hidden)


def _rnn(d: Direction, x: Array, states: States) -> States:
    (own,), (past,) = d.sums(x, states[0])
    return (d.of[0](own + past),)


def _gru(d: Direction, x: Array, states: States) -> States:
    """Gates: update, reset, hidden."""
    hidden = states[0]
    own, past = d.sums(x, hidden)
    update, reset = (d.of[0](own[i] + past[i]) for i in (0, 1))
    if d.f.integer("linear_before_reset"):
        candidate = reset * past[2]
    else:
        size = hidden.shape[-1]
        candidate = (reset * hidden) @ d.r[2 * size :].T + d.biases[5 * size :]
    return ((1 - update) * d.of[1](own[2] + candidate) + update * hidden,)


def _lstm(d: Direction, x: Array, states: States) -> States:
    """Gates: input, output, forget, cell; peepholes of the first three."""
    hidden, cell = states
    own, past = d.sums(x, hidden)
    into, out, forget, new = (a + b for a, b in zip(own, past, strict=True))
    p = np.split(d.peepholes, 3) if d.peepholes is not None else [0, 0, 0]
    into = d.of[0](into + p[0] * cell)
    forget = 1 - into if d.f.integer("input_forget") else d.of[0](forget + p[2] * cell)
    cell = forget * cell + into * d.of[1](new)
    return d.of[0](out + p[1] * cell) * d.of[2](cell), cell


def _activations(f: Function, default: Sequence[str], directions: int) -> Iterator[list[Activation]]:
    """Of each direction. alpha and beta are for those that take them, in order."""
    names = f.attrs.get("activations", tuple(default) * directions)
    assert isinstance(names, tuple)
    numbers: list[Iterator[Any]] = [iter(f.attrs.get(name, ())) for name in ("activation_alpha", "activation_beta")]  # type: ignore[arg-type]
    bound, made = f.real("clip", np.inf), list[Activation]()
    for name in names:
        compute, defaults = ACTIVATIONS[str(name).lower()]
        found = [next(given, default) for given, default in zip(numbers, defaults, strict=False)]
        made.append(partial(_bounded, compute, bound, found))
    for i in range(directions):
        yield made[i * len(default) : (i + 1) * len(default)]


def _bounded(compute: Callable[..., Any], bound: float, numbers: Sequence[float], x: Array) -> Any:
    return compute(np.clip(x, -bound, bound), *numbers)


def _run(
    step: Callable[[Direction, Array, States], States], gates: int, default: Sequence[str], states: int, f: Function, ins: list[Any]
) -> tuple[Array, ...]:
    """Inputs: x, w, r, biases, lengths, the first states, peepholes. Results: the hidden state of every step, and the last states."""
    is_batch_first = bool(f.integer("layout"))
    x, w, r = ins[0], ins[1], ins[2]
    x = np.swapaxes(x, 0, 1) if is_batch_first else x
    (steps, batch, _), directions, size = x.shape, w.shape[0], r.shape[-1]
    biases = given(ins, 3)
    biases = np.zeros((directions, 2 * gates * size), x.dtype) if biases is None else biases
    lengths = np.full(batch, steps) if given(ins, 4) is None else given(ins, 4)
    firsts = [np.zeros((directions, batch, size), x.dtype) if s is None else np.swapaxes(s, 0, 1) if is_batch_first else s
              for s in (given(ins, 5 + i) for i in range(states))]  # fmt: skip
    every, lasts = np.zeros((steps, directions, batch, size), x.dtype), [s.astype(x.dtype) for s in firsts]
    for i, of in enumerate(_activations(f, default, directions)):
        peepholes = given(ins, 7)
        d = Direction(f, w[i], r[i], biases[i], None if peepholes is None else peepholes[i], of, gates)
        is_back = f.string("direction", "forward") == "reverse" or i == 1
        now = tuple(s[i] for s in lasts)
        for t in range(steps):
            live = np.flatnonzero(t < lengths)
            at = (lengths[live] - 1 - t) if is_back else np.full(len(live), t)
            for s, new in zip(now, step(d, x[at, live], tuple(s[live] for s in now)), strict=True):
                s[live] = new
            every[at, i, live] = now[0][live]
    if is_batch_first:
        return np.moveaxis(every, 2, 0), *(np.swapaxes(s, 0, 1) for s in lasts)
    return every, *lasts


def _flops(gates: int, f: Function, ins: Shapes, outs: Shapes) -> int:
    """Of the products."""
    steps_and_batch, (directions, _, size) = prod(ins[0][:2]), ins[2]
    return 2 * steps_and_batch * directions * gates * size * (ins[0][2] + size)


def _recurrent(step: Callable[[Direction, Array, States], States], gates: int, default: Sequence[str], states: int = 1) -> NumpyOp:
    return NumpyOp(partial(_run, step, gates, default, states), partial(_flops, gates), SUMS, is_judged=False)


RECURRENT: dict[str, NumpyOp] = {
    "RNN": _recurrent(_rnn, 1, ("Tanh",)),
    "GRU": _recurrent(_gru, 3, ("Sigmoid", "Tanh")),
    "LSTM": _recurrent(_lstm, 4, ("Sigmoid", "Tanh", "Tanh"), states=2),
}
