"""Changes to a graph from the command line, as pure functions Graph -> Graph.

rewrite.py  all changes in benchdnn's order: Overrides, rewrite
draft.py    a graph with changed shapes or attributes, before the other shapes are inferred
layout.py   dims and strides set by the user
shapes.py   --in-shapes: dims and layouts of graph inputs and outputs (NewShape); row_major: layouts only
batch.py    --mb
attrs.py    --op-attrs
kinds.py    --op-kind: replace an op by another of its family, or remove it
dtypes.py   --dt, for all tensors or one by one; --tensor-property; --attr-fpmath

The graph may be illegal before. The result of `rewrite` is legal and shape-inferred; that of a single change only if its input allows it
(`validate` checks). Errors name the op or tensor.
"""

from benchgraph.graph.override.attrs import with_attrs
from benchgraph.graph.override.batch import with_batch
from benchgraph.graph.override.dtypes import with_dtype, with_dtypes, with_fpmath, with_properties
from benchgraph.graph.override.kinds import with_kinds
from benchgraph.graph.override.layout import NewShape
from benchgraph.graph.override.rewrite import BadOverride, Overrides, rewrite
from benchgraph.graph.override.shapes import row_major, with_shapes

__all__ = [
    "BadOverride", "NewShape", "Overrides", "rewrite", "row_major", "with_attrs", "with_batch", "with_dtype", "with_dtypes", "with_fpmath",
    "with_kinds", "with_properties", "with_shapes",
]  # fmt: skip
