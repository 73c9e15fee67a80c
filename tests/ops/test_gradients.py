"""Every backward op against numerical differentiation of its forward reference, from the table alone: a row that says whose
gradient it is gets its tests here.

Which tensor is which follows from the ports' names. `diff_x` is the gradient by the forward input x; an input named like a forward
output (dst, mean, batch_mean) is what the forward reference makes of the forward inputs; `src/dst` is the one that use_dst says.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

from benchgraph.core.attrs import Attrs
from benchgraph.core.dtypes import DType
from benchgraph.core.tensor import Shape, TensorType
from benchgraph.ops import OPS, call_of, spec, with_defaults
from benchgraph.ops.laws import Reals, real
from benchgraph.ops.spec import Array, Call, OpSpec, Sample
from tests.support.table import by_row

STEP = 2.0**-16  # the error of a central difference is then about STEP**2 times the third derivative, and 2**-52 / STEP: both below 1e-9
DIRECTIONS = 4
RTOL = 1e-6

BACKWARD = [row for row in OPS.values() if row.testing.gradient_of]
SAMPLES = [(row.kind, f"{row.kind}-{i}", (row, s)) for row in BACKWARD for i, s in enumerate(row.testing.samples)]


@dataclass(frozen=True)
class Problem:
    """A backward call, its forward call, and the forward inputs by port name."""

    backward: Call
    forward: Call
    ins: dict[str, Reals]

    def forward_outs(self, ins: dict[str, Reals]) -> tuple[Array, ...]:
        return spec(self.forward.kind).semantics.reference(self.forward, tuple(ins.values()))


def as_f32(t: TensorType) -> TensorType:
    return TensorType(DType.f32, t.shape) if t.dtype.is_float else t


def problem_of(row: OpSpec, sample: Sample, seed: int) -> Problem:
    """Forward inputs as the forward row fills them, in f32 whatever the sample's float type, so that hardly any is at a kink."""
    given = call_of(row.kind, sample)
    backward = Call(row.kind, given.attrs, tuple(map(as_f32, given.ins)), tuple(map(as_f32, given.outs)))
    forward = spec(row.testing.gradient_of)
    shapes = forward_shapes(row, backward)
    attrs = with_defaults(forward.kind, Attrs({k: v for k, v in backward.attrs.items() if k in forward.schema.attrs}))
    types = tuple(TensorType(DType.f32, s) for s in shapes.values())
    results = tuple(TensorType(DType.f32, s) for s in forward.semantics.infer(attrs, types))
    call = Call(forward.kind, attrs, types, results)
    rng = np.random.default_rng(seed)
    ins = {name: real(forward.testing.domain(call, i, rng)) for i, name in enumerate(shapes)}
    given_names = {port.name for port, _ in zip(row.schema.inputs, backward.ins, strict=False)}
    neutral = {name: np.ones(a.shape) for name, a in list(ins.items())[least_inputs(forward) :] if name not in given_names}
    return Problem(backward, call, ins | neutral)


def least_inputs(row: OpSpec) -> int:
    return min(row.schema.num_inputs, default=len(row.schema.inputs))


def forward_shapes(row: OpSpec, call: Call) -> dict[str, Shape]:
    """Shapes of the forward inputs: the backward op has each as an input or as a gradient, or else it is shaped like diff_dst.

    An optional forward input takes part when its gradient is asked for: without diff_gamma, a gamma plays no role, and one
    that the backward op is not told is 1.
    """
    known = {port.name: t.shape for port, t in zip(row.schema.inputs, call.ins, strict=False)}
    known |= {port.name: t.shape for port, t in zip(row.schema.outputs, call.outs, strict=False)}
    forward = spec(row.testing.gradient_of)
    found: dict[str, Shape] = {}
    for i, port in enumerate(forward.schema.inputs):
        if i >= least_inputs(forward) and f"diff_{port.name}" not in known:
            break
        names = (f"diff_{port.name}", port.name, f"{port.name}/dst", "diff_dst")
        found[port.name] = next(known[n] for n in names if n in known)
    return found


def backward_ins(row: OpSpec, p: Problem, diff_dst: Reals) -> tuple[Array, ...]:
    results = dict(zip((port.name for port in spec(row.testing.gradient_of).schema.outputs), p.forward_outs(p.ins), strict=False))
    tensors: dict[str, Array] = {**p.ins, "diff_dst": diff_dst, **results}
    tensors |= {name.removeprefix("batch_"): a for name, a in results.items() if name.startswith("batch_")}
    tensors["src/dst"] = tensors["dst" if p.backward.attrs.get("use_dst") else "src"]
    unused = {port.name: np.ones(t.shape) for port, t in zip(row.schema.inputs, p.backward.ins, strict=False)}
    return tuple(tensors.get(name, ones) for name, ones in unused.items())


def slopes(p: Problem, name: str, direction: Reals, step: float, diff_dst: Reals) -> Reals:
    """The derivative of diff_dst * dst along a direction of one input, by a central difference."""
    above, below = (real(p.forward_outs({**p.ins, name: p.ins[name] + s * direction})[0]) for s in (step, -step))
    return real(diff_dst * (above - below) / (2 * step))


def check(row: OpSpec, p: Problem, rng: np.random.Generator) -> bool:
    """Each gradient, along random directions, is the derivative of sum(diff_dst * dst).

    False when two steps do not give the same derivative: there is a kink between them.
    """
    diff_dst = rng.standard_normal(p.forward.outs[0].shape)
    gradients = row.semantics.reference(p.backward, backward_ins(row, p, diff_dst))
    assert len(gradients) == len(p.backward.outs)
    for port, gradient in zip(row.schema.outputs, gradients, strict=False):
        name = port.name.removeprefix("diff_")
        assert gradient.shape == p.ins[name].shape
        for _ in range(DIRECTIONS):
            direction = rng.standard_normal(p.ins[name].shape)
            got, want, again = (real(gradient) * direction, *(slopes(p, name, direction, s, diff_dst) for s in (STEP, STEP / 2)))
            size = np.sqrt(np.sum(got**2)) + np.sqrt(np.sum(want**2))
            if abs(want.sum() - again.sum()) > RTOL / 10 * size:
                return False
            assert abs(got.sum() - want.sum()) <= RTOL * size, f"{port.name}: {got.sum()} is not the slope {want.sum()}"
    return True


@by_row(SAMPLES)
def test_the_gradient_is_the_numerical_derivative_of_the_forward_reference(row: OpSpec, sample: Sample) -> None:
    rng = np.random.default_rng(7)
    assert any(check(row, problem_of(row, sample, seed), rng) for seed in range(5)), "no data without a kink in five tries"


def test_every_backward_row_names_its_forward_op() -> None:
    assert [row.kind for row in OPS.values() if row.kind.endswith("Backward") and not row.testing.gradient_of] == []


@pytest.mark.parametrize("row", BACKWARD, ids=lambda row: row.kind)
def test_a_gradient_of_the_wrong_sign_is_noticed(row: OpSpec) -> None:
    def negated(call: Call, ins: tuple[Array, ...]) -> tuple[Array, ...]:
        return tuple(-real(a) for a in row.semantics.reference(call, ins))

    problem = problem_of(row, row.testing.samples[0], 0)
    with pytest.raises(AssertionError, match="is not the slope"):
        check(replace(row, semantics=replace(row.semantics, reference=negated)), problem, np.random.default_rng(7))
