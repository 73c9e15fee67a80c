"""The data of mode C: benchdnn's strategies. Every row of the op table names its own (`Testing.fill`).

noise.py      random numbers that depend only on seed, tensor and element
filling.py    simple strategies: integers, choices, cycles, ramps
products.py   MatMul and convolutions: integers whose sums are exact, and as many zeros as that needs
pointwise.py  two operands, activations, conversions, PReLU
rows.py       softmax and reductions
norms.py      rows whose mean and variance are exact
"""
