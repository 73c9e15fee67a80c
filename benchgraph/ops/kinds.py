"""The names of oneDNN's 88 op kinds, so that a kind without a row can be told from a typing error. Rows are in the other modules."""

from __future__ import annotations

_NAMES = """
    Abs AbsBackward Add AvgPool AvgPoolBackward BatchNormForwardTraining BatchNormInference BatchNormTrainingBackward BiasAdd
    BiasAddBackward Clamp ClampBackward Concat ConvTranspose ConvTransposeBackwardData ConvTransposeBackwardWeights Convolution
    ConvolutionBackwardData ConvolutionBackwardWeights Dequantize Divide Dropout DynamicDequantize DynamicQuantize Elu EluBackward
    End Exp GELU GELUBackward GenIndex GreaterEqual GroupNorm HardSigmoid HardSigmoidBackward HardSwish HardSwishBackward
    Interpolate InterpolateBackward LayerNorm LayerNormBackward LeakyReLU Log LogSoftmax LogSoftmaxBackward MatMul MaxPool
    MaxPoolBackward Maximum Minimum Mish MishBackward Multiply PReLU PReLUBackward Pow Quantize RMSNorm ReLU ReLUBackward Reciprocal
    ReduceL1 ReduceL2 ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum Reorder Round Select Sigmoid SigmoidBackward SoftMax
    SoftMaxBackward SoftPlus SoftPlusBackward Sqrt SqrtBackward Square SquaredDifference StaticReshape StaticTranspose Subtract Tanh
    TanhBackward TypeCast Wildcard
"""
ONEDNN_KINDS = frozenset(_NAMES.split())
