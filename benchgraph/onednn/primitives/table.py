"""Which family of primitives computes an op kind, and how it is encoded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from benchgraph.onednn.primitives.families import (
    binary,
    convolution,
    eltwise,
    matmul,
    movement,
    norms,
    pooling,
    prelu,
    reduction,
    resampling,
    softmax,
)
from benchgraph.onednn.primitives.messages import ProgramStep
from benchgraph.onednn.primitives.step import NoPrimitive, Step, Target
from benchgraph.onednn.table import DTYPES
from benchgraph.ops import OPS


@dataclass(frozen=True)
class Family:
    """name: of the primitive in oneDNN's documentation, which is its partitions' kind. takes_post_ops: whether ops around become its
    attributes. takes_copies: whether it is a reorder, which copies, casts and quantises at once.
    """

    name: str
    encode: Callable[[Step, Target], tuple[ProgramStep, ...]]
    takes_post_ops: bool = False
    takes_copies: bool = False


_COPIES = Family("reorder", movement.copies, takes_copies=True)

FAMILIES: dict[str, Family] = {
    **{kind: Family("eltwise", eltwise.forward) for kind in eltwise.FORWARD},
    **{f"{kind}Backward": Family("eltwise", eltwise.backward) for kind in eltwise.FORWARD if f"{kind}Backward" in OPS},
    **{kind: Family("binary", binary.forward) for kind in binary.ALGS},
    "BiasAdd": Family("binary", binary.bias_add),
    "Select": Family("binary", binary.select),
    "SquaredDifference": Family("binary", binary.squared_difference),
    "MatMul": Family("matmul", matmul.forward, takes_post_ops=True),
    "Convolution": Family("convolution", convolution.forward, takes_post_ops=True),
    "ConvolutionBackwardData": Family("convolution", convolution.backward_data),
    "ConvolutionBackwardWeights": Family("convolution", convolution.backward_weights),
    "ConvTranspose": Family("deconvolution", convolution.forward, takes_post_ops=True),
    "ConvTransposeBackwardData": Family("deconvolution", convolution.backward_data),
    "ConvTransposeBackwardWeights": Family("deconvolution", convolution.backward_weights),
    "SoftMax": Family("softmax", softmax.forward),
    "SoftMaxBackward": Family("softmax", softmax.backward),
    "LogSoftmax": Family("softmax", softmax.forward),
    "LogSoftmaxBackward": Family("softmax", softmax.backward),
    "BatchNormInference": Family("batch_normalization", norms.batch_inference),
    "BatchNormForwardTraining": Family("batch_normalization", norms.batch_training),
    "BatchNormTrainingBackward": Family("batch_normalization", norms.batch_backward),
    "LayerNorm": Family("layer_normalization", norms.layer),
    "LayerNormBackward": Family("layer_normalization", norms.layer_backward),
    "RMSNorm": Family("layer_normalization", norms.rms),
    "GroupNorm": Family("group_normalization", norms.group),
    "AvgPool": Family("pooling", pooling.forward),
    "AvgPoolBackward": Family("pooling", pooling.backward),
    "MaxPool": Family("pooling", pooling.forward),
    "MaxPoolBackward": Family("pooling", pooling.backward),
    "Reorder": _COPIES,
    "TypeCast": _COPIES,
    "Quantize": _COPIES,
    "Dequantize": _COPIES,
    "StaticTranspose": _COPIES,
    "DynamicQuantize": Family("reorder", movement.scaled_at_runtime),
    "DynamicDequantize": Family("reorder", movement.scaled_at_runtime),
    "StaticReshape": Family("view", movement.reshape),
    "Concat": Family("concat", movement.concat),
    **{kind: Family("reduction", reduction.forward) for kind in reduction.ALGS},
    "BiasAddBackward": Family("reduction", reduction.bias_gradient),
    "Interpolate": Family("resampling", resampling.forward),
    "InterpolateBackward": Family("resampling", resampling.backward),
    "PReLU": Family("prelu", prelu.forward),
    "PReLUBackward": Family("prelu", prelu.backward),
}


def encode(step: Step, target: Target) -> tuple[ProgramStep, ...]:
    """The primitives of a step. Raises NoPrimitive, which says why there are none."""
    family = FAMILIES.get(step.anchor.kind)
    if family is None:
        raise NoPrimitive("no primitive computes it")
    tensors = [step.stored(t) for op in (step.anchor, *step.post_ops) for t in op.inputs] + list(step.ops[-1].outputs)
    if any(0 in t.known_shape for t in tensors):
        raise NoPrimitive("a tensor has no elements")
    for entry, dtype in ((DTYPES[t.dtype.value], t.dtype) for t in tensors if t.dtype.value in DTYPES):
        if entry.since > target.version:
            raise NoPrimitive(f"{dtype.value} needs oneDNN {'.'.join(map(str, entry.since))}")
    return family.encode(step, target)
