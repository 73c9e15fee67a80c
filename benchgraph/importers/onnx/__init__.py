"""ONNX models as graphs: fp32, opsets 13 and newer, static shapes. Needs the extra `onnx`.

draft.py     a graph in the making: values by their names in the model, constants with their data
model.py     a file read and turned into a graph, node by node; what is known beforehand is computed by onnx's reference
rows.py      the table of ops: pointwise ops, reductions, products, layout ops
nn_rows.py   its rows of convolutions, pooling and normalisation
wildcards.py nodes without a row as Wildcards that say what they compute
"""
