"""How each sort of step becomes primitives: encode(step, target) -> messages, or NoPrimitive. One file per family.

eltwise.py      activations and other functions of one number, and their gradients
binary.py       Add, Multiply, Select ...
fused.py        post-ops, scales and zero points: attributes of the products
matmul.py       MatMul
convolution.py  Convolution, ConvTranspose and their gradients
softmax.py      SoftMax, LogSoftmax and their gradients
norms.py        BatchNorm, LayerNorm, GroupNorm, RMSNorm and gradients
pooling.py      AvgPool, MaxPool and their gradients
movement.py     reorders (casts, quantisation, transposition), Concat, reshapes
reduction.py    ReduceSum and its relatives, BiasAddBackward
resampling.py   Interpolate and its gradient
prelu.py        PReLU and its gradient
"""
