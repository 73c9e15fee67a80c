"""Random numbers of philox4x32-10 (core/philox.py), one per lane.

The ten rounds are a loop: unrolled, they would take LLVM 70 of the 250 ms in which attention with dropout is compiled.
"""

from __future__ import annotations

from benchgraph.codegen import ir
from benchgraph.codegen.building_blocks import loop
from benchgraph.codegen.intrinsics import I32, I64, constant, lanes_of, same_lanes, shuffled, vector
from benchgraph.core.philox import BLOCK, KEY_STEPS, LARGEST, MIDDLE, MULTIPLIERS, ROUNDS, WORD_BITS, WORDS


def numbers(b: ir.IRBuilder, index: ir.Value, seed: ir.Value, offset: ir.Value) -> ir.Value:
    """Tensor IR's Random, computed for each lane separately."""
    lane = b.and_(index, constant(index.type, BLOCK - 1))
    *words, number = _words(b, b.sub(index, lane), seed, offset)
    for n, word in reversed(list(enumerate(words))):
        number = b.select(b.icmp_unsigned("==", lane, constant(lane.type, n)), word, number)
    return _signed(b, number)


def consecutive_numbers(b: ir.IRBuilder, groups: ir.Value, seed: ir.Value, offset: ir.Value) -> ir.Value:
    """Tensor IR's Random of consecutive indices: BLOCK lanes for each lane of the operands. groups: multiples of BLOCK."""
    words = _words(b, groups, seed, offset)
    while len(words) > 1:  # the first half with the second, so that word n gets to lane n
        half = len(words) // 2
        words = [_interleaved(b, x, y) for x, y in zip(words[:half], words[half:], strict=True)]
    return _signed(b, words[0])


def _signed(b: ir.IRBuilder, words: ir.Value) -> ir.Value:
    return b.xor(words, constant(words.type, MIDDLE))


def _interleaved(b: ir.IRBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
    """x[0], y[0], x[1], y[1], ..."""
    lanes = lanes_of(x)
    return shuffled(b, x, y, [lane // 2 + lane % 2 * lanes for lane in range(2 * lanes)])


def _words(b: ir.IRBuilder, group: ir.Value, seed: ir.Value, offset: ir.Value) -> list[ir.Value]:
    counter = [*_halves(b, offset), *_halves(b, group)]
    return loop(b, ROUNDS, [*counter, *_halves(b, seed)], lambda _, state: _round(b, *state))[:BLOCK]


def _halves(b: ir.IRBuilder, x: ir.Value) -> list[ir.Value]:
    """The lower 32 bits and the upper ones."""
    return [b.trunc(half, same_lanes(x, I32)) for half in (x, b.lshr(x, constant(x.type, WORD_BITS)))]


def _round(b: ir.IRBuilder, c0: ir.Value, c1: ir.Value, c2: ir.Value, c3: ir.Value, k0: ir.Value, k1: ir.Value) -> list[ir.Value]:
    (high_0, low_0), (high_1, low_1) = (_product(b, c, by) for c, by in zip((c0, c2), MULTIPLIERS, strict=True))
    keys = [b.add(k, constant(k.type, step)) for k, step in zip((k0, k1), KEY_STEPS, strict=True)]
    return [b.xor(b.xor(high_1, c1), k0), low_1, b.xor(b.xor(high_0, c3), k1), low_0, *keys]


def _product(b: ir.IRBuilder, x: ir.Value, by: int) -> tuple[ir.Value, ir.Value]:
    """The upper and the lower 32 bits. Vectors multiply even and odd lanes separately: a vpmuludq each, and no wider vectors."""
    lower, lanes = b.mul(x, constant(x.type, by)), lanes_of(x)
    if lanes % 2:
        return _halves(b, b.mul(b.zext(x, same_lanes(x, I64)), constant(same_lanes(x, I64), by)))[1], lower
    pairs = b.bitcast(x, vector(I64, lanes // 2))
    least, half = constant(pairs.type, LARGEST), constant(pairs.type, WORD_BITS)
    even, odd = (b.mul(lane, constant(pairs.type, by)) for lane in (b.and_(pairs, least), b.lshr(pairs, half)))
    return b.bitcast(b.or_(b.lshr(even, half), b.and_(odd, constant(pairs.type, -WORDS))), x.type), lower
