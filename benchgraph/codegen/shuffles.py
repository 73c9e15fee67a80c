"""Shuffles of the rows of a matrix, a vector each: interleaving, interleaving in groups, transposition."""

from __future__ import annotations

from collections.abc import Sequence

from benchgraph.codegen import ir
from benchgraph.codegen.intrinsics import I8, I16, I32, constant, lanes_of, poison, same_lanes, shuffled, vector

WIDE = 16  # lanes of vectors that are interleaved by widening loads and shifts, or by permutations, which are faster there than unpacks


def interleaved(builder: ir.IRBuilder, parts: Sequence[ir.Value]) -> ir.Value:
    """Element 0 of each part, then element 1 of each, ... for one, two or four parts whose elements together have 32 bits."""
    if len(parts) == 1:
        return parts[0]
    count = lanes_of(parts[0])
    if count == WIDE:
        wide = [builder.zext(part, same_lanes(part, I32)) for part in parts]
        total = wide[0]
        for i, part in enumerate(wide[1:], 1):
            total = builder.or_(total, builder.shl(part, constant(part.type, i * 32 // len(parts))))
        return total
    if len(parts) == 4:
        pairs = [builder.bitcast(interleaved(builder, pair), vector(I16, count)) for pair in (parts[:2], parts[2:])]
        return interleaved(builder, pairs)
    return shuffled(builder, parts[0], parts[1], [i // 2 + count * (i % 2) for i in range(2 * count)])


def concatenated(builder: ir.IRBuilder, a: ir.Value, b: ir.Value) -> ir.Value:
    """Two vectors as one. If both were just loaded, the second load inserts into the upper half, without a shuffle."""
    return shuffled(builder, a, b, range(lanes_of(a) + lanes_of(b)))


def grouped(builder: ir.IRBuilder, rows: Sequence[ir.Value], lanes: int) -> list[ir.Value]:
    """Element 0 of each row, then element 1 of each, ... in vectors of `lanes` groups, for rows as wide as `pack._Emitter.widths` says."""
    return _permuted(builder, rows) if lanes == WIDE else _unpacked(builder, rows, lanes)


def _permuted(builder: ir.IRBuilder, rows: Sequence[ir.Value]) -> list[ir.Value]:
    """Groups of four rows of bytes.

    One permutation of 32-bit units brings four columns of each row into each 128 bits; one of bytes within 128 bits makes groups of them.
    The empty assembly between the two keeps LLVM from merging them into one shuffle, which it would expand into more than a dozen.
    """
    quads = lanes_of(rows[0]) // 4  # of columns
    a, b = (builder.bitcast(concatenated(builder, *pair), vector(I32, 2 * quads)) for pair in (rows[:2], rows[2:]))
    units, bytes = vector(I32, WIDE), vector(I8, 4 * WIDE)
    results = []
    for start in range(0, quads, 4):
        quad = shuffled(builder, a, b, [row * quads + start + column for column in range(4) for row in range(4)])
        kept = builder.asm(ir.FunctionType(units, [units]), "", "=v,0", [quad])
        places = [block + 4 * row + column for block in range(0, 4 * WIDE, 16) for column in range(4) for row in range(4)]
        results.append(shuffled(builder, builder.bitcast(kept, bytes), poison(bytes), places))
    return results


def _unpacked(builder: ir.IRBuilder, rows: Sequence[ir.Value], lanes: int) -> list[ir.Value]:
    """Groups of rows that each fill 128 or 256 bits: unpacks, then exchanges of 128 bits."""
    parts = _within_blocks(builder, rows)
    count, block = lanes_of(rows[0]), 128 // rows[0].type.element.width
    if count == block:
        each = lanes * len(rows) // block  # parts of a result
        return parts if each == 1 else [concatenated(builder, *parts[i : i + each]) for i in range(0, len(parts), each)]
    masks = [[side * count + start + i for side in (0, 1) for i in range(block)] for start in range(0, count, block)]
    return [shuffled(builder, parts[i], parts[i + 1], mask) for mask in masks for i in range(0, len(parts), 2)]


def _within_blocks(builder: ir.IRBuilder, rows: Sequence[ir.Value]) -> list[ir.Value]:
    """As many vectors as rows: the groups of the first columns of each 128 bits of the rows, then those of the next columns, ..."""
    if len(rows) == 1:
        return [*rows]
    half, type = len(rows) // 2, rows[0].type
    wide = vector(ir.IntType(half * type.element.width), type.count // half)
    parts = list[ir.Value]()
    for pair in zip(_within_blocks(builder, rows[:half]), _within_blocks(builder, rows[half:]), strict=True):
        a, b = (builder.bitcast(part, wide) for part in pair)
        masks = (_unpack(wide.count, 128 // wide.element.width, side) for side in (0, 1))
        parts += [builder.bitcast(shuffled(builder, a, b, mask), type) for mask in masks]
    return parts


def transposed(builder: ir.IRBuilder, rows: Sequence[ir.Value], *, halves_exchanged: bool = False) -> list[ir.Value]:
    """The columns of a square tile.

    Each step merges rows `distance` apart: it swaps that bit of the row's number with a bit of the lane's. The first two steps are unpacks
    within 128 bits, the others exchange blocks of 128 bits.

    halves_exchanged: of rows four apart, the first holds the lower halves of both and the second the upper ones, so that this step is done.
    It swapped the highest bit of the lane's number, the last step swaps the one below: rows are reordered in the end.
    """
    rows, lanes = list(rows), len(rows)
    for distance in (d for d in (2, 1, 4, 8) if d < lanes and not (halves_exchanged and d == 4)):
        halves = [_unpack(lanes, 4, half) if distance < 4 else _exchange(lanes, half) for half in (0, 1)]
        for first in (r for r in range(lanes) if not r & distance):
            pair = rows[first], rows[first + distance]
            rows[first], rows[first + distance] = (shuffled(builder, *pair, half) for half in halves)
    return [rows[r & ~12 | (r & 4) << 1 | (r & 8) >> 1] for r in range(lanes)] if halves_exchanged and lanes > 8 else rows


def _unpack(lanes: int, block: int, half: int) -> list[int]:
    """Alternating lanes of two vectors, from the lower or the upper half of each block of 128 bits."""
    return [side * lanes + start + half * block // 2 + i for start in range(0, lanes, block) for i in range(block // 2) for side in (0, 1)]


def _exchange(lanes: int, half: int) -> list[int]:
    """Every other block of 128 bits of the first vector, then of the second."""
    return [side * lanes + block + i for side in (0, 1) for block in range(4 * half, lanes, 8) for i in range(4)]
