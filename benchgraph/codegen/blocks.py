"""Loops, parts of vectors and prefetches for kernels, whose extents are all known when they are written."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from benchgraph.codegen import ir
from benchgraph.codegen.intrinsics import I1, I32, I64, VOID, call, lanes_of, mangled, poison, vector

FIRST_LEVEL, SECOND_LEVEL = 3, 2  # llvm.prefetch's localities


def begun(module: ir.Module, name: str, arguments: Sequence[ir.Type], pointers: Sequence[str]) -> tuple[ir.Function, ir.IRBuilder]:
    """A function of the module that other modules call, and a builder at its entry. pointers: the names of its first arguments, to separate
    pieces of memory."""
    function = ir.Function(module, ir.FunctionType(VOID, arguments), name)
    function.linkage = "hidden"
    function.attributes.update(("noinline", "nounwind"))  # a caller with loops of its own would take registers from these
    for argument, called in zip(function.args, pointers, strict=False):
        argument.name = called
        argument.add_attribute("noalias")
    return function, ir.IRBuilder(function.append_basic_block("entry"))


def loop(
    builder: ir.IRBuilder, count: int | ir.Value, carried: list[ir.Value], body: Callable[[ir.Value, list[ir.Value]], list[ir.Value]]
) -> list[ir.Value]:
    """Run body(i, carried) for i in 0 .. count - 1, each time with what the time before returned; gives the last result. 1 <= count."""
    if count == 1:
        return body(I64(0), carried)
    before = builder.block
    head, after = builder.append_basic_block("loop"), builder.append_basic_block("done")
    builder.branch(head)
    builder.position_at_end(head)
    index, phis = builder.phi(I64), [builder.phi(value.type) for value in carried]
    results = body(index, [*phis])
    following = builder.add(index, I64(1), flags=("nuw", "nsw"))
    builder.cbranch(builder.icmp_unsigned("!=", following, I64(count) if isinstance(count, int) else count), head, after)
    for phi, first, later in zip([index, *phis], [I64(0), *carried], [following, *results], strict=True):
        phi.add_incoming(first, before)
        phi.add_incoming(later, builder.block)
    builder.position_at_end(after)
    return results


def repeat(builder: ir.IRBuilder, count: int | ir.Value, body: Callable[[ir.Value], object]) -> None:
    """Run body(i) for i in 0 .. count - 1. 1 <= count."""

    def once(i: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
        body(i)
        return carried

    loop(builder, count, [], once)


def between(builder: ir.IRBuilder, first: ir.Value, end: ir.Value, body: Callable[[ir.Value], object]) -> None:
    """Run body(i) for i in first .. end - 1, which may be none."""
    with builder.if_then(builder.icmp_unsigned("<", first, end)):
        repeat(builder, builder.sub(end, first), lambda i: body(builder.add(first, i)))


def affine(builder: ir.IRBuilder, index: ir.Value, scale: int, offset: int = 0) -> ir.Value:
    return builder.add(builder.mul(index, I64(scale)), I64(offset))


def advanced(builder: ir.IRBuilder, pointer: ir.Value, elements: ir.Value | int, type: ir.Type) -> ir.Value:
    """The address so many elements of this type further on."""
    return builder.gep(pointer, [I64(elements) if isinstance(elements, int) else elements], inbounds=True, source_etype=type)


def prefetch(builder: ir.IRBuilder, at: ir.Value, level: int, *, is_store: bool = False) -> None:
    """A line into the cache of this level, FIRST_LEVEL or SECOND_LEVEL; any address will do."""
    call(builder, "llvm.prefetch.p0", VOID, [at, I32(int(is_store)), I32(level), I32(1)])


def load_first(builder: ir.IRBuilder, type: ir.Type, pointer: ir.Value, used: int, align: int) -> ir.Value:
    """A vector of which only the first `used` lanes are read; the others hold anything."""
    if used == type.count:
        return builder.load(pointer, typ=type, align=align)
    args = [pointer, I32(align), _first(used, type.count), poison(type)]
    return call(builder, f"llvm.masked.load.{mangled(type)}.p0", type, args, ir.ANYWHERE)


def store_first(builder: ir.IRBuilder, value: ir.Value, pointer: ir.Value, used: int, align: int) -> None:
    """Only the first `used` lanes are written."""
    if used == lanes_of(value):
        builder.store(value, pointer, align=align)
        return
    args = [value, pointer, I32(align), _first(used, lanes_of(value))]
    call(builder, f"llvm.masked.store.{mangled(value.type)}.p0", VOID, args, ir.ANYWHERE)


def _first(used: int, lanes: int) -> ir.Constant:
    return ir.Constant(vector(I1, lanes), [int(lane < used) for lane in range(lanes)])
