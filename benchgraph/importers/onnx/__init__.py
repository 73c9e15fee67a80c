"""ONNX models as graphs: opsets 13 and newer, static shapes. Needs the extra `onnx`.

draft.py             a graph in the making: values by their names in the model, constants with their data
model.py             a file read and turned into a graph, node by node; what is known beforehand is computed by onnx's reference
constants.py         arrays that are known beforehand, and whether there is room for them
external_data.py     weights in files of their own: whether they may be read
functions.py         local functions in place of their calls, unless they become too much
inferred.py          onnx's shape inference against what the file declares and sizes of the user's, and of one node
idioms.py            several nodes that exporters write for one op
rows.py              the table of ops: pointwise ops, casts, reductions, products
nn_rows.py           its rows of convolutions, pooling and normalisation
layout_rows.py       its rows of ops that move or repeat elements
parts.py             parts of what a product makes, from parts of its weights
attention_rows.py    its rows of attention and rotary embeddings
quantised_rows.py    its rows of quantisation: weights in few bits stay so
contrib_rows.py      its rows of com.microsoft, which ONNX Runtime's tools write
wildcards.py         nodes without a row as Wildcards that say what they compute
"""
