"""A sample of every op of PyTorch that the framework maps, and how to build a program from a function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (pip install 'benchgraph[torch]')")

from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402

from benchgraph.library.engine import Engine  # noqa: E402
from benchgraph.partition.ir import Policy  # noqa: E402
from benchgraph.torch.decompositions import DECOMPOSITIONS  # noqa: E402
from benchgraph.torch.program import Program, build  # noqa: E402

aten = torch.ops.aten
ENGINE = Engine()
Sample = tuple[Any, Callable[..., Any], Sequence[Any]]


def program(function: Callable[..., Any], args: Sequence[Any]) -> Program:
    module = make_fx(lambda *a: (function(*a),), tracing_mode="fake", decomposition_table=DECOMPOSITIONS)(*args)
    return build(module, frozenset(), ENGINE, Policy.fused, [f"arg{i}" for i in range(len(args))])


def t(*shape: int, dtype: Any = None, positive: bool = False) -> Any:
    torch.manual_seed(sum(shape))
    made = torch.rand(shape) + 0.25 if positive else torch.randn(shape)
    return made.to(dtype or torch.float32)


BF16 = torch.bfloat16
A, B, P = t(3, 5), t(3, 5) * 2, t(3, 5, positive=True)
IMAGE = t(2, 4, 9, 8)
UNARY = ("abs", "exp", "hardswish", "hardsigmoid", "mish", "relu", "round", "sigmoid", "tanh", "neg", "square", "silu")
MEAN, VAR, GAMMA, BETA = t(4), t(4, positive=True), t(4) + 1, t(4)
Q, K, V = t(2, 2, 6, 8), t(2, 2, 7, 8), t(2, 2, 7, 8) * 2


def conv(*args: Any) -> Callable[..., Any]:
    return lambda x, w, *b: aten.convolution.default(x, w, *(b or (None,)), *args)


def sdpa(**given: Any) -> Callable[..., Any]:
    return lambda q, k, v, *m: aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, **given, **({"attn_mask": m[0]} if m else {}))[0]


SAMPLES: list[Sample] = [
    *((getattr(aten, name).default, getattr(aten, name), [A]) for name in UNARY),
    *((getattr(aten, name).default, getattr(aten, name), [P]) for name in ("log", "sqrt", "rsqrt", "reciprocal")),
    (aten.add.Tensor, lambda a, b: aten.add.Tensor(a, b, alpha=0.5), [A, t(5)]),
    (aten.add.Tensor, lambda a: a + 1.5, [A]),
    (aten.add.Tensor, lambda a, b: a + b, [A, B.to(BF16)]),
    (aten.add.Tensor, lambda a, b: a + b, [A.to(BF16), torch.tensor(2.0)]),  # no dims: bf16 stays
    (aten.add.Scalar, lambda a: aten.add.Scalar(a, 2, 3), [A]),
    (aten.sub.Tensor, lambda a, b: aten.sub.Tensor(a, b, alpha=2), [A, B]),
    (aten.sub.Scalar, lambda a: aten.sub.Scalar(a, 2), [A]),
    (aten.rsub.Scalar, lambda a: aten.rsub.Scalar(a, 1, 2), [A]),
    (aten.rsub.Tensor, lambda a, b: aten.rsub.Tensor(a, b), [A, B]),
    (aten.mul.Tensor, lambda a: a * 0.1, [A.to(BF16)]),
    (aten.mul.Tensor, lambda a, b: a * b, [A, t(3, 1)]),
    (aten.mul.Scalar, lambda a: aten.mul.Scalar(a, 3), [A]),
    (aten.div.Tensor, lambda a, b: a / b, [A, P]),
    (aten.div.Scalar, lambda a: aten.div.Scalar(a, 3), [A]),
    (aten.maximum.default, aten.maximum, [A, B]),
    (aten.minimum.default, aten.minimum, [A, B]),
    (aten.ge.Tensor, lambda a, b: aten.where(aten.ge.Tensor(a, b), a, b), [A, B]),
    (aten.ge.Scalar, lambda a, b: aten.where(aten.ge.Scalar(a, 0.25), a, b), [A, B]),
    (aten.le.Tensor, lambda a, b: aten.where(aten.le.Tensor(a, b), a, b), [A, B]),
    (aten.le.Scalar, lambda a, b: aten.where(aten.le.Scalar(a, 0.25), a, b), [A, B]),
    (aten.where.self, lambda c, a, b: aten.where(c, a, b), [A > 0, A, t(5)]),
    (aten.gelu.default, lambda a: aten.gelu(a), [A]),
    (aten.gelu.default, lambda a: aten.gelu(a, approximate="tanh"), [A]),
    (aten.elu.default, lambda a: aten.elu(a, 0.5), [A]),
    (aten.leaky_relu.default, lambda a: aten.leaky_relu(a, 0.1), [A]),
    (aten.softplus.default, lambda a: aten.softplus(a, 2.0), [A * 8]),
    (aten.hardtanh.default, lambda a: aten.hardtanh(a, -0.5, 0.75), [A]),
    (aten.clamp.default, lambda a: aten.clamp(a, -0.5, 0.75), [A]),
    (aten.clamp.default, lambda a: aten.clamp(a, max=0.5), [A.to(BF16)]),
    (aten.clamp_min.default, lambda a: aten.clamp_min(a, 0.5), [A]),
    (aten.clamp_max.default, lambda a: aten.clamp_max(a, 0.5), [A]),
    *((aten.pow.Tensor_Scalar, lambda a, e=e: aten.pow.Tensor_Scalar(a, e), [P]) for e in (2, 0.5, -1, -0.5, 1.7)),
    (aten._softmax.default, lambda a: aten._softmax(a, 0, False), [A]),
    (aten._softmax.default, lambda a: aten._softmax(a, -1, False), [A.to(BF16)]),
    (aten._log_softmax.default, lambda a: aten._log_softmax(a, 1, False), [A]),
    (aten.sum.dim_IntList, lambda a: aten.sum(a, [0, 2], True), [t(2, 3, 4)]),
    (aten.sum.default, lambda a: aten.sum(a), [A]),
    (aten.mean.dim, lambda a: aten.mean(a, [-1]), [A.to(BF16)]),
    (aten.mean.default, lambda a: aten.mean(a), [A]),
    (aten.amax.default, lambda a: aten.amax(a, [1]), [A]),
    (aten.amin.default, lambda a: aten.amin(a, [0], True), [A]),
    (aten.prod.dim_int, lambda a: aten.prod.dim_int(a, 1), [A]),
    (aten.cat.default, lambda a, b: aten.cat([a, b, a], -1), [A, t(3, 2)]),
    (aten.clone.default, lambda a: aten.clone(aten.relu(a).t(), memory_format=torch.contiguous_format), [A]),
    (aten._to_copy.default, lambda a: aten._to_copy(a, dtype=BF16), [A]),
    (aten._to_copy.default, lambda a: aten._to_copy(a, dtype=torch.float32), [A.to(BF16)]),
    (aten._to_copy.default, lambda a: aten._to_copy(a, memory_format=torch.channels_last), [IMAGE]),
    (aten.mm.default, aten.mm, [A, t(5, 4)]),
    (aten.mm.default, lambda a, b: aten.mm(a, b.t()), [A.to(BF16), t(4, 5, dtype=BF16)]),
    (aten.bmm.default, aten.bmm, [t(2, 3, 5), t(2, 5, 4)]),
    (aten.mv.default, aten.mv, [A, t(5)]),
    (aten.addmm.default, aten.addmm, [t(4), A, t(5, 4)]),
    (aten.addmm.default, lambda c, a, b: aten.addmm(c, a, b, beta=0.5, alpha=2), [t(3, 4), A, t(5, 4)]),
    (aten.addmm.default, lambda c, a, b: aten.addmm(c, a, b, beta=0), [t(3, 4) * torch.inf, A, t(5, 4)]),
    (aten.baddbmm.default, lambda c, a, b: aten.baddbmm(c, a, b, alpha=0.5), [t(2, 1, 4), t(2, 3, 5), t(2, 5, 4)]),
    (aten._scaled_dot_product_flash_attention_for_cpu.default, sdpa(), [Q, K, V]),
    (aten._scaled_dot_product_flash_attention_for_cpu.default, sdpa(is_causal=True, scale=0.3), [Q, Q * 2, Q + 1]),
    (aten._scaled_dot_product_flash_attention_for_cpu.default, sdpa(), [Q, K, V, t(6, 7)]),
    (aten.convolution.default, conv([2, 1], [1, 0], [1, 2], False, [0, 0], 2), [IMAGE, t(6, 2, 3, 3), t(6)]),
    (aten.convolution.default, conv([1], [2], [1], False, [0], 1), [t(2, 4, 9), t(3, 4, 3)]),
    (aten.convolution.default, conv([2, 2], [1, 1], [1, 1], True, [1, 0], 2), [IMAGE, t(4, 3, 3, 3), t(6)]),
    (aten.max_pool2d_with_indices.default, lambda x: aten.max_pool2d_with_indices(x, [3, 2], [2], [1], [1, 2])[0], [IMAGE]),
    (aten.max_pool2d_with_indices.default, lambda x: aten.max_pool2d_with_indices(x, [2, 2], [2, 2], [0], [1], True)[0], [IMAGE]),
    (aten.max_pool3d_with_indices.default, lambda x: aten.max_pool3d_with_indices(x, [2, 2, 2])[0], [t(1, 2, 4, 4, 4)]),
    (aten.avg_pool2d.default, lambda x: aten.avg_pool2d(x, [3, 3], [2, 2], [1, 1]), [IMAGE]),
    (aten.avg_pool2d.default, lambda x: aten.avg_pool2d(x, [3, 3], [2, 2], [1, 1], True, False), [IMAGE]),
    (aten.avg_pool3d.default, lambda x: aten.avg_pool3d(x, [2, 2, 2]), [t(1, 2, 4, 4, 4)]),
    (aten._adaptive_avg_pool2d.default, lambda x: aten._adaptive_avg_pool2d(x, [8, 3]), [t(2, 4, 8, 9)]),
    (aten._adaptive_avg_pool3d.default, lambda x: aten._adaptive_avg_pool3d(x, [2, 1, 4]), [t(1, 2, 4, 4, 4)]),
    (aten.native_layer_norm.default, lambda x, g, b: aten.native_layer_norm(x, [3, 5], g, b, 1e-3)[0], [t(2, 3, 5), A, B]),
    (aten.native_layer_norm.default, lambda x, g: aten.native_layer_norm(x, [5], g, None, 1e-5)[0], [A.to(BF16), t(5, dtype=BF16)]),
    (aten.native_layer_norm.default, lambda x: aten.native_layer_norm(x, [5], None, None, 1e-5)[0], [A]),
    (aten.native_group_norm.default, lambda x, g, b: aten.native_group_norm(x, g, b, 2, 4, 72, 2, 1e-5)[0], [IMAGE, GAMMA, BETA]),
    (
        aten._native_batch_norm_legit_no_training.default,
        lambda x, g, b, m, v: aten._native_batch_norm_legit_no_training(x, g, b, m, v, 0.1, 1e-3)[0],
        [IMAGE, GAMMA, BETA, MEAN, VAR],
    ),
    (
        aten._native_batch_norm_legit_no_training.default,
        lambda x, m, v: aten._native_batch_norm_legit_no_training(x, None, None, m, v, 0.1, 1e-3)[0],
        [IMAGE, MEAN, VAR],
    ),
]
