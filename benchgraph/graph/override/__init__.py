"""Command-line changes to a graph, as pure functions Graph -> Graph.

rewrite.py     all of them in benchdnn's order: Overrides, rewrite
draft.py       a graph some of whose shapes or attributes are set, so that all others are inferred again
layout.py      dims and strides that a user sets
shapes.py      --in-shapes: dims and layouts of graph inputs and outputs (NewShape); row_major: layouts alone
batch.py       --mb
attrs.py       --op-attrs
kinds.py       --op-kind: exchange an op for another of its family, or take it out
fpmath.py      --attr-fpmath
dtypes.py      --dt, for all tensors or one by one
properties.py  --tensor-property

The graph may be illegal before the change. What `rewrite` returns is legal and shape-inferred; a single change is only as legal as its
input allows (`validate` checks that). Errors name the op or tensor.
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
