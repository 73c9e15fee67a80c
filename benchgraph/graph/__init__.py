"""The API graph: what a user builds or a JSON dump holds, before anyone partitions or compiles it.

ir        Graph, Op: frozen; order, producers, consumers, inputs, outputs
check     is it a legal graph (ids, producers, cycles, dtypes, the op table's rules); validate = check + infer_shapes
infer     known dims and strides for every tensor
json      oneDNN Graph JSON: load, loads, save, dumps, read (without checking); json_values: the text of a file as values
text      the same graph for people and tests: print_graph, parse_graph
override  changes on the way to the harness: rewrite, with_batch, with_shapes, row_major ...
build     GraphBuilder, sample_graph
"""

from benchgraph.graph.build import GraphBuilder, sample_graph
from benchgraph.graph.check import check, validate
from benchgraph.graph.infer import infer_shapes
from benchgraph.graph.ir import Graph, Op
from benchgraph.graph.json import dumps, load, loads, read, save
from benchgraph.graph.override import row_major, with_batch
from benchgraph.graph.text import parse_graph, print_graph

__all__ = [
    "Graph",
    "GraphBuilder",
    "Op",
    "check",
    "dumps",
    "infer_shapes",
    "load",
    "loads",
    "parse_graph",
    "print_graph",
    "read",
    "row_major",
    "sample_graph",
    "save",
    "validate",
    "with_batch",
]
