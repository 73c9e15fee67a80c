"""Command-line changes to a graph, as pure functions Graph -> Graph.

rewrite     all of them in benchdnn's order: Overrides, rewrite
shapes      --in-shapes: dims and layouts of graph inputs and outputs (NewShape); row_major: layouts of one's own only
batch       --mb
attrs       --op-attrs
kinds       --op-kind: exchange an op for another of its family, or take it out
fpmath      --attr-fpmath
dtypes      --dt, for all tensors or one by one
properties  --tensor-property
draft       what the first three have in common: all other shapes follow anew

The graph may be one that is not legal before the change. What `rewrite` returns is legal and shape-inferred; a single change is only as
legal as its input allows (`validate` tells). Errors name the op or tensor.
"""

from benchgraph.graph.override.attrs import with_attrs
from benchgraph.graph.override.batch import with_batch
from benchgraph.graph.override.dtypes import with_dtype, with_dtypes
from benchgraph.graph.override.fpmath import with_fpmath
from benchgraph.graph.override.kinds import with_kinds
from benchgraph.graph.override.layout import NewShape
from benchgraph.graph.override.properties import with_properties
from benchgraph.graph.override.rewrite import BadOverride, Overrides, rewrite
from benchgraph.graph.override.shapes import row_major, with_shapes

__all__ = [
    "BadOverride",
    "NewShape",
    "Overrides",
    "rewrite",
    "row_major",
    "with_attrs",
    "with_batch",
    "with_dtype",
    "with_dtypes",
    "with_fpmath",
    "with_kinds",
    "with_properties",
    "with_shapes",
]
