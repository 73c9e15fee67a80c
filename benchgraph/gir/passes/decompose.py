"""decompose: ops without a form of computation of their own are replaced by ops that have one, as their rows of the op table say.

%2 = SoftMax(%1) {axis=-1}   ->   %3 = _RowMax(%1) {axes=[1], keep_dims=true}     %4 = Subtract(%1, %3)   %5 = Exp(%4)
                                  %6 = ReduceSum(%5) {axes=[1], keep_dims=true}   %2 = Divide(%5, %6)
"""

from __future__ import annotations

from benchgraph.core.attrs import Attrs
from benchgraph.gir.build import CONVERT, COPY, Builder
from benchgraph.gir.ir import Graph, Node, Op
from benchgraph.machine.target import Target
from benchgraph.ops.spec import Call


def decompose(g: Graph, target: Target) -> Graph:
    """Apply rows' decompositions until every op has a form."""
    builder = Builder(g.values)
    work: list[Node] = list(reversed(g.nodes))
    done: list[Node] = []
    while work:
        op = work.pop()
        if not isinstance(op, Op):
            raise TypeError("decompose runs before fusion")
        call = Call(op.kind, op.attrs, tuple(map(builder.type, op.ins)), tuple(map(builder.type, op.outs)))
        is_canonical = op.lowering.is_canonical
        if op.lowering.decompose is None or (is_canonical is not None and is_canonical(call)):
            done.append(op)
        else:
            work.extend(reversed(_expand(builder, op, call)))
    return builder.graph(g, done)


def _expand(builder: Builder, op: Op, call: Call) -> list[Op]:
    """The ops that replace `op`, with the results renamed to the outputs of `op`."""
    assert op.lowering.decompose is not None
    results = op.lowering.decompose(builder, call, op.ins)
    new = builder.taken()
    made = {v for o in new for v in o.outs}
    rename: dict[int, int] = {}
    for got, want in zip(results, op.outs, strict=False):
        if got in made and got not in rename and builder.type(got) == builder.type(want):
            rename[got] = want
            del builder.values[got]
        else:
            kind = COPY if builder.type(got).dtype is builder.type(want).dtype else CONVERT
            new.append(Op(kind, (got,), (want,), Attrs()))
    return [Op(o.kind, tuple(rename.get(v, v) for v in o.ins), tuple(rename.get(v, v) for v in o.outs), o.attrs) for o in new]
