"""Rates of a machine at another ISA level than its table's: with vectors of another width, and what the level has instructions for.

An instruction takes as many passes through the core as its vector is wide, at least one. What takes several instructions (exp, conversions)
takes those of the level's generic table, at the machine's pace.
"""

from __future__ import annotations

from dataclasses import fields, replace

from benchgraph.core.dtypes import DType
from benchgraph.core.isa import ISAS, Isa
from benchgraph.machine.rates import CoreCache, Product, Products, Rates, SharedCache, Vector

_ONE_INSTRUCTION = frozenset({"simple_cycles", "divide_cycles", "square_root_cycles", "shuffle_cycles"})
_PER_CYCLE = ("read_bytes_per_cycle", "write_bytes_per_cycle")


def at_level(own: Rates, isa: Isa, generic: Rates) -> Rates:
    """own: at its own level. generic: the level's table."""
    passes = own.share_of_vector(isa.vector_bits // DType.f32.bits)
    simple = own.vector.simple_cycles * passes
    pace = simple / generic.vector.simple_cycles
    wider = isa.lanes / ISAS[own.level].lanes / passes  # elements per cycle
    l1 = replace(own.l1, **{name: getattr(own.l1, name) * wider for name in _PER_CYCLE})
    return replace(
        own,
        level=isa.name,
        products=_products(own, isa, wider, simple, generic.products, pace),
        tiles=(own.tiles or generic.tiles) if isa.has_amx else None,
        vector=_vector(own.vector, passes, own.vector if isa.name == own.level else generic.vector, pace),
        l1=l1,
        l2=replace(own.l2, **{name: min(getattr(own.l2, name), l1_rate) for name, l1_rate in _of_l2(l1).items()}),
        l3=replace(own.l3, **_at_most(own.l3, l1, own.clock_ghz)),
        dram=replace(own.dram, **_at_most(own.dram, l1, own.clock_ghz)),
    )


def _of_l2(l1: CoreCache) -> dict[str, float]:
    """By rate of L2, that of L1, which limits it."""
    return {**{name: getattr(l1, name) for name in _PER_CYCLE}, "rows_read_bytes_per_cycle": l1.read_bytes_per_cycle}


def _vector(own: Vector, passes: float, generic: Vector, pace: float) -> Vector:
    factor = passes if generic is own else pace
    costs = {f.name: getattr(generic, f.name) * factor for f in fields(Vector)}
    costs |= {name: getattr(own, name) * passes for name in _ONE_INSTRUCTION}
    return Vector(**costs | {"latency_cycles": own.latency_cycles})


def _products(own: Rates, isa: Isa, wider: float, simple: float, generic: Products, pace: float) -> Products:
    # LLVM adds pairs of s16 by vpdpwssd where there is VNNI
    def product(name: str) -> Product | None:
        mine, others = getattr(own.products, name), getattr(generic, name)
        if mine is not None and others is not None and (name != "s16" or isa.has_vnni == ISAS[own.level].has_vnni):
            return Product(mine.macs_per_cycle * wider, mine.latency_cycles)
        return others and Product(others.macs_per_cycle / pace * isa.lanes / ISAS[isa.name].lanes, others.latency_cycles)

    f32, s16 = product("f32"), product("s16")
    assert f32 is not None, "every table has it"
    assert s16 is not None, "every table has it"
    if "fma" in isa.without:  # a multiplication, and an addition to the accumulator
        f32 = Product(isa.lanes / (2 * simple), own.vector.latency_cycles)
    return Products(f32, s16, product("bf16"), product("u8s8"))


def _at_most(memory: SharedCache, l1: CoreCache, clock_ghz: float) -> dict[str, float]:
    """What one core reads and writes there, with no wider loads and stores than in L1."""
    return {
        "read_bytes_per_ns": min(memory.read_bytes_per_ns, l1.read_bytes_per_cycle * clock_ghz),
        "write_bytes_per_ns": min(memory.write_bytes_per_ns, l1.write_bytes_per_cycle * clock_ghz),
    }
