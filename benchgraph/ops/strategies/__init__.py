"""What mode C tests an op on: benchdnn's strategies, of which every row of the op table names its own (`Testing.fill`).

noise         random numbers that depend on nothing but seed, tensor and element
filling       what a strategy is; the simple ones: integers, choices, cycles, ramps
products      MatMul and convolutions: integers whose sums are exact, and as many zeros as that takes
pointwise     two operands, activations, conversions, PReLU
rows          softmax and reductions
norms         rows whose mean and variance are exact
"""
