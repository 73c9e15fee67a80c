"""A user's program in small: build a graph from a description of it, and run its partitions wired by tensor ids."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from benchgraph import Engine, FpmathMode, Graph, LogicalTensor, Partition, Stream, Tensor
from benchgraph import graph as api

Arrays = dict[int, NDArray[np.generic]]


def built(source: api.Graph | Iterable[api.Op]) -> Graph:
    """The same graph through the programming model, finalized."""
    known = source if isinstance(source, api.Graph) else api.Graph(tuple(source))
    g = Graph(known.engine_kind, FpmathMode(known.fpmath_mode))
    for op in known.ops:
        g.add_op(op)
    g.finalize()
    return g


def execute(partitions: Iterable[Partition], data: Arrays, engine: Engine | None = None) -> Arrays:
    """Compile and run supported partitions in order. data: what comes from outside, by tensor id. Returns it and all they made."""
    engine, live = engine or Engine(), dict(data)
    for p in partitions:
        if not p.is_supported:
            continue
        described = {t.id: t for t in p.input_ports}
        compiled = p.compile([_as_it_is(t, live[t.id]) for t in described.values()], p.output_ports, engine)
        ins = [Tensor(compiled.query_logical_tensor(id), engine, live[id]) for id in described]
        outs = [Tensor(compiled.query_logical_tensor(t.id), engine) for t in p.output_ports]
        compiled.execute(Stream(engine), ins, outs)
        live |= {t.logical.id: t.array for t in outs}
    return live


def _as_it_is(t: LogicalTensor, array: NDArray[np.generic]) -> LogicalTensor:
    """The port with the dims and strides of the data."""
    return t.with_shape(array.shape, tuple(s // array.itemsize for s in array.strides))
