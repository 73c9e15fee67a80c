"""The API graph: built by users or read from JSON dumps, before it is partitioned and compiled.

ir.py           Graph, Op: frozen; order, producers, consumers, inputs, outputs
build.py        GraphBuilder, sample_graph
json_values.py  the text of a file as JSON values
json.py         oneDNN Graph JSON: load, loads, save, dumps, read (without checking)
text.py         a readable text form: print_graph, parse_graph
check.py        whether a graph is legal (ids, producers, cycles, dtypes, the op table's rules); validate = check + infer_shapes
infer.py        known dims and strides for every tensor
model.py        a whole model: a graph with the data of its constants and the names of its file
override/       changes from the command line: rewrite, with_batch, with_shapes, row_major ...
"""

from benchgraph.graph.build import GraphBuilder, sample_graph
from benchgraph.graph.check import check, validate
from benchgraph.graph.infer import infer_shapes
from benchgraph.graph.ir import Graph, Op
from benchgraph.graph.json import dumps, load, loads, read, save
from benchgraph.graph.override import row_major, with_batch
from benchgraph.graph.text import parse_graph, print_graph

__all__ = [
    "Graph", "GraphBuilder", "Op", "check", "dumps", "infer_shapes", "load", "loads", "parse_graph", "print_graph", "read", "row_major",
    "sample_graph", "save", "validate", "with_batch",
]  # fmt: skip
