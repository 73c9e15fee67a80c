"""Convolution, ConvTranspose, their gradients, and the compiler's own ops that these are decomposed into.

problem.py           the one convolution behind all of these ops: shapes, and its three products in float64
samples.py           samples: one list of problems, each as all ops that compute a part of it
rows.py              the rows of the six ops
decompose.py         how each op becomes products of matrices, or one of the compiler's own convolutions
depthwise.py         one channel per group: windows instead of products
phases.py            gradients by data under a stride: which output channels read which taps
weights_in_parts.py  gradients by weights as partial sums over blocks of windows
internal_rows.py     the rows of the compiler's own ops
padding.py           which outputs may multiply an infinity or NaN by a zero of the padding
"""
