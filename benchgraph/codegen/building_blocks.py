"""Loops, loads and stores of the first lanes of a vector, and prefetches, for kernels whose extents are known at compile time."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from benchgraph.codegen import ir
from benchgraph.codegen.intrinsics import I1, I32, I64, VOID, call, lanes_of, mangled, poison, vector

INTO_L1, INTO_L2 = 3, 2  # locality arguments of llvm.prefetch


def begin_function(module: ir.Module, name: str, arguments: Sequence[ir.Type], pointers: Sequence[str]) -> tuple[ir.Function, ir.IRBuilder]:
    """A function that other modules call, and a builder at its entry. pointers: names of its first arguments, which do not alias."""
    function = ir.Function(module, ir.FunctionType(VOID, arguments), name)
    function.linkage = "hidden"
    function.attributes.update(("noinline", "nounwind"))  # inlined, it would share registers with the loops of its caller
    for argument, pointer in zip(function.args, pointers, strict=False):
        argument.name = pointer
        argument.attributes.append("noalias")
    return function, ir.IRBuilder(function.append_basic_block("entry"))


def loop(
    builder: ir.IRBuilder, count: int | ir.Value, carried: list[ir.Value], body: Callable[[ir.Value, list[ir.Value]], list[ir.Value]]
) -> list[ir.Value]:
    """Run body(i, carried) for i in 0 .. count - 1 on loop-carried values: it returns those of the next iteration. Returns the last ones.
    1 <= count."""
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

    def iteration(i: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
        body(i)
        return carried

    loop(builder, count, [], iteration)


def repeat_between(builder: ir.IRBuilder, first: ir.Value, end: ir.Value, body: Callable[[ir.Value], object]) -> None:
    """Run body(i) for i in first .. end - 1, which may be empty."""
    with builder.if_then(builder.icmp_unsigned("<", first, end)):
        repeat(builder, builder.sub(end, first), lambda i: body(builder.add(first, i)))


def affine(builder: ir.IRBuilder, index: ir.Value, scale: int, offset: int = 0) -> ir.Value:
    """index * scale + offset."""
    return builder.add(builder.mul(index, I64(scale)), I64(offset))


def offset_pointer(builder: ir.IRBuilder, pointer: ir.Value, elements: ir.Value | int, type: ir.Type) -> ir.Value:
    """The address `elements` elements of this type after the pointer."""
    return builder.gep(pointer, [I64(elements) if isinstance(elements, int) else elements], inbounds=True, source_etype=type)


def prefetch(builder: ir.IRBuilder, at: ir.Value, level: int, *, for_write: bool = False) -> None:
    """Prefetch the cache line at an address, which may be invalid. level: INTO_L1 or INTO_L2."""
    call(builder, "llvm.prefetch.p0", VOID, [at, I32(int(for_write)), I32(level), I32(1)])


def load_lanes(builder: ir.IRBuilder, type: ir.Type, pointer: ir.Value, used: int, align: int) -> ir.Value:
    """A vector of which only the first `used` lanes are read; the others are undefined."""
    if used == type.count:
        return builder.load(pointer, typ=type, align=align)
    args = [pointer, I32(align), _first(used, type.count), poison(type)]
    return call(builder, f"llvm.masked.load.{mangled(type)}.p0", type, args, ir.ANYWHERE)


def store_lanes(builder: ir.IRBuilder, value: ir.Value, pointer: ir.Value, used: int, align: int) -> None:
    """Write the first `used` lanes only."""
    if used == lanes_of(value):
        builder.store(value, pointer, align=align)
        return
    args = [value, pointer, I32(align), _first(used, lanes_of(value))]
    call(builder, f"llvm.masked.store.{mangled(value.type)}.p0", VOID, args, ir.ANYWHERE)


def _first(used: int, lanes: int) -> ir.Constant:
    return ir.Constant(vector(I1, lanes), [int(lane < used) for lane in range(lanes)])
