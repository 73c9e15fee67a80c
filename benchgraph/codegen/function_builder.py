"""The LLVM function that is being emitted: values of its variables, addresses of its tensors, loads and stores."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from benchgraph.codegen import ir
from benchgraph.codegen.clock_readings import ClockReadings
from benchgraph.codegen.convert import from_memory, memory_type, to_memory
from benchgraph.codegen.intrinsics import (
    I1,
    I8,
    I32,
    I64,
    PTR,
    VOID,
    call,
    constant,
    declare,
    has_narrowing_stores,
    lanes_of,
    mangled,
    poison,
    shuffled,
    splat,
    vector,
)
from benchgraph.codegen.tile_registers import Shapes
from benchgraph.core.dtypes import DType
from benchgraph.machine.target import LINE_BYTES, Target, on_line
from benchgraph.tir.affine import Ranges
from benchgraph.tir.ir import Expr, Func, Scope, Stmt, Tensor, Var
from benchgraph.tir.vector_loops import LINE_LANES, MOST_STRIDE, largest_store_stride
from benchgraph.tir.visit import tensor_names

SHARED_ARENA, THREAD_ARENA = "shared arena", "thread arena"

ARENA_GAP_BYTES = 128 << 10
"""Between the arenas of two threads: hardware prefetches beyond the end of one arena would take cache lines from the core that writes the
next one (docs/measurements/codegen.md)."""


def thread_stride(func: Func) -> int:
    """Distance in bytes of the arenas of two threads."""
    return on_line(func.thread_bytes) + ARENA_GAP_BYTES if func.thread_bytes else 0


def thread_arenas_bytes(func: Func, threads: int) -> int:
    """Bytes of the arenas of all threads."""
    return on_line(func.thread_bytes) + thread_stride(func) * (threads - 1)


def memories(module: ir.Module, func: Func) -> dict[str, ir.Memory]:
    """The parameters and arenas by name, each with an alias scope of its own.

    Tensors within an arena share a scope, as plan-buffers lets them share bytes. Parameters that may be the same memory (func.inplace) may
    alias.
    """
    names = (*(p.name for p in func.params), SHARED_ARENA, THREAD_ARENA)
    domain = module.add_metadata([f"tensors of {func.name}"])
    scopes = {name: module.add_metadata([name, domain]) for name in names}
    aliases = {name: {name} for name in names}
    for pair in func.inplace:
        aliases[pair.dst].add(pair.src)
        aliases[pair.src].add(pair.dst)
    out = {}
    for name, overlaps in aliases.items():
        others = module.add_metadata([scope for other, scope in scopes.items() if other not in overlaps])
        metadata = f", !alias.scope {module.add_metadata([scopes[name]]).ref}, !noalias {others.ref}"
        out[name] = ir.Memory(name, frozenset(overlaps), metadata)
    return out


@dataclass(frozen=True)
class Call:
    """function(pointers to these elements, integers, loop variables, values of registers). shapes: the configuration of tile registers that
    the task must load; None for functions that use none."""

    function: ir.Function
    pointers: tuple[tuple[Tensor, Expr], ...]
    integers: tuple[int, ...] = ()
    loop_variables: tuple[Var, ...] = ()
    registers: tuple[Tensor, ...] = ()
    shapes: Shapes | None = None


Calls: TypeAlias = dict[int, tuple[Call, ...]]  # by the id() of the statement


@dataclass
class FunctionBuilder:
    """The state of emitting one LLVM function.

    argv: the array of parameter and arena pointers. calls: of the function's statements. variables: loop variables in scope. ranges: of
    their values. registers: allocas by name. bases: pointers by parameter or arena name. memories: by parameter, arena or register name.
    is_task: inside a loop that one thread runs. has_non_temporal_stores: a fence is needed at the end.
    readings: of the clock, in code that is profiled.
    """

    builder: ir.IRBuilder
    func: Func
    target: Target
    memories: dict[str, ir.Memory]
    argv: ir.Value
    calls: Calls
    is_task: bool
    variables: dict[str, ir.Value] = field(default_factory=dict)
    ranges: Ranges = field(default_factory=dict)
    registers: dict[str, ir.Value] = field(default_factory=dict)
    bases: dict[str, ir.Value] = field(default_factory=dict)
    has_non_temporal_stores: bool = False
    readings: ClockReadings | None = None

    def load_bases(self, thread: ir.Value, body: Stmt) -> None:
        """Load the pointers of argv that this body may use, at the start of the function. Those of the arenas are always loaded: LLVM
        drops unused loads."""
        b = self.builder
        names = [*(p.name for p in self.func.params), SHARED_ARENA, THREAD_ARENA]
        pointers = ir.Memory("pointers", frozenset(), f", !invariant.load {b.module.add_metadata([]).ref}")
        used = {SHARED_ARENA, THREAD_ARENA, *tensor_names(body)}
        for position, name in ((i, name) for i, name in enumerate(names) if name in used):
            self.bases[name] = b.load(b.gep(self.argv, [I64(position)], inbounds=True, source_etype=PTR), typ=PTR, memory=pointers)
        offset = b.mul(thread, I64(thread_stride(self.func)))
        self.bases[THREAD_ARENA] = b.gep(self.bases[THREAD_ARENA], [offset], inbounds=True, source_etype=I8)

    def declare_register(self, t: Tensor) -> None:
        self.registers[t.name] = self.builder.alloca(vector(memory_type(t.dtype), t.lanes), t.name)

    def address(self, t: Tensor, index: ir.Value) -> ir.Value:
        """Of element `index` of a parameter or an arena tensor; for s4 and u4, of the byte that holds it."""
        start = self.bases[_base(t)]
        if t.offset:
            start = self.builder.gep(start, [I64(t.offset)], inbounds=True, source_etype=I8)
        if t.dtype.is_packed:
            index = self.builder.lshr(index, I64(1))
        return self.builder.gep(start, [index], source_etype=memory_type(t.dtype))

    def load(self, t: Tensor, index: ir.Value | None, stride: int, lanes: int, mask: ir.Value | None, odd: int | None = None) -> ir.Value:
        """`lanes` elements from index on, `stride` apart; lanes where the mask is off are 0. index None: a register.

        odd: index % 2 if that is known, for elements that share bytes.
        """
        b = self.builder
        if index is None:
            loaded = b.load(self.registers[t.name], typ=vector(memory_type(t.dtype), lanes), memory=self.memory(t))
            value = from_memory(b, loaded, t.dtype)
            return value if mask is None else b.select(mask, value, constant(value.type, 0))
        if t.dtype.is_packed:
            return self._load_packed(t, index, stride, lanes, mask, odd)
        return from_memory(b, self._load_at(t, self.address(t, index), stride, lanes, mask), t.dtype)

    def _load_at(self, t: Tensor, at: ir.Value, stride: int, lanes: int, mask: ir.Value | None) -> ir.Value:
        """`lanes` units of the memory type from an address on, `stride` of them apart; nothing past the last one is read."""
        if 1 < stride <= MOST_STRIDE and lanes > stride:
            return self._strided_load(t, at, stride, lanes, mask)
        b = self.builder
        if mask is None and (stride == 1 or lanes == 1):
            return b.load(at, typ=vector(memory_type(t.dtype), lanes), align=_align(t), memory=self.memory(t))
        loaded = self._masked_load(t, at, stride, lanes, mask)
        return b.extract_element(loaded, I32(0)) if lanes == 1 else loaded

    def _load_packed(self, t: Tensor, index: ir.Value, stride: int, lanes: int, mask: ir.Value | None, odd: int | None) -> ir.Value:
        """Elements of s4 or u4, each sign- or zero-extended to i8. odd: index % 2 if that is known.

        With an even stride all lanes are in the same half of their bytes. With an odd one, even lanes and odd lanes are loaded separately,
        `stride` bytes apart, and interleaved. If it is known which half comes first, both loads may be the same.
        """
        b = self.builder
        if lanes == 1 or stride % 2 == 0:
            bytes = self._load_at(t, self.address(t, index), stride // 2, lanes, mask)
            high: ir.Value = b.trunc(b.and_(index, I64(1)), I8) if odd is None else I8(odd)
            up = splat(b, b.sub(I8(4), b.shl(high, I8(2))), lanes)  # into the high half, so that the next shift extends it
            return (b.ashr if t.dtype is DType.s4 else b.lshr)(b.shl(bytes, up), constant(bytes.type, 4))
        evens = self._load_packed(t, index, 2 * stride, (lanes + 1) // 2, _every_other(b, mask, 0), odd)
        following = b.add(index, I64(stride - 1 if odd == 0 else stride))  # either element of the byte has the same address
        odds = self._load_packed(t, following, 2 * stride, lanes // 2, _every_other(b, mask, 1), None if odd is None else 1 - odd)
        return _interleaved(b, evens, odds)

    def store(
        self,
        t: Tensor,
        index: ir.Value | None,
        stride: int,
        value: ir.Value,
        lanes: int,
        mask: ir.Value | None,
        *,
        non_temporal: bool = False,
    ) -> None:
        """The counterpart of load: memory of lanes where the mask is off is unchanged. non_temporal: bypass the caches if aligned."""
        b = self.builder
        stored = to_memory(b, value, t.dtype)
        if index is None:
            register, memory = self.registers[t.name], self.memory(t)
            new = stored if mask is None else b.select(mask, stored, b.load(register, typ=stored.type, memory=memory))
            b.store(new, register, memory=memory)
            return
        at = self.address(t, index)
        if 1 < stride <= largest_store_stride(t.dtype) and lanes > stride:
            stored, mask = _spread(b, stored, mask, stride)
            lanes, stride = lanes * stride, 1
        if non_temporal:
            self._store_non_temporal(t, at, stored)
        elif mask is None and (stride == 1 or lanes == 1):
            b.store(stored, at, align=_align(t), memory=self.memory(t))
        else:
            self._masked_store(t, at, stride, stored, lanes, mask)

    def _store_non_temporal(self, t: Tensor, at: ir.Value, stored: ir.Value) -> None:
        """Non-temporal stores write whole cache lines, and the alignment of a user's tensor is known at run time only.

        Floats narrower than 32 bits pass through empty assembly as i64: LLVM 22 drops the non-temporal hint of a vector of bfloat or half.
        """
        b, self.has_non_temporal_stores = self.builder, True
        if t.dtype.is_float and t.dtype.bits < I32.width and self.target.lanes == LINE_LANES:
            integers = I64.lanes(LINE_BYTES * 8 // I64.width)
            stored = b.asm(ir.FunctionType(integers, [integers]), "", "=v,0", [b.bitcast(stored, integers)])
        within = b.and_(b.ptrtoint(self.bases[_base(t)], I64), I64(LINE_BYTES - 1))
        with b.if_else(b.icmp_signed("==", within, I64(0))) as (aligned, otherwise):
            with aligned:
                b.store(stored, at, align=LINE_BYTES, memory=self.memory(t), non_temporal=True)
            with otherwise:
                b.store(stored, at, align=_align(t), memory=self.memory(t))

    def return_void(self) -> None:
        """End the function. A fence orders non-temporal stores before what follows."""
        if self.has_non_temporal_stores:
            call(self.builder, "llvm.x86.sse.sfence", VOID, [], ir.ANYWHERE)
        self.builder.ret_void()

    def _masked_load(self, t: Tensor, at: ir.Value, stride: int, lanes: int, mask: ir.Value | None) -> ir.Value:
        type = memory_type(t.dtype).lanes(lanes)
        where, contiguous = self._addresses(t, at, stride, lanes)
        name = f"llvm.masked.{'load' if contiguous else 'gather'}.{mangled(type)}.{mangled(where.type)}"
        return call(self.builder, name, type, [where, I32(_align(t)), self._mask(mask, lanes), constant(type, 0)], self.memory(t))

    def _strided_load(self, t: Tensor, at: ir.Value, stride: int, lanes: int, mask: ir.Value | None) -> ir.Value:
        """Every stride-th unit, by shuffles of dense loads, which are faster than a gather."""
        b, reach = self.builder, (lanes - 1) * stride + 1
        if mask is not None:
            wide = [-(-i // stride) if i < reach else lanes for i in range(lanes * stride)]  # units before a lane have its mask
            loaded = self._masked_load(t, at, 1, lanes * stride, shuffled(b, mask, constant(mask.type, 0), wide))
            return shuffled(b, loaded, poison(loaded.type), [i * stride for i in range(lanes)])
        starts = [*(part * lanes for part in range(stride - 1)), reach - lanes]
        picked: ir.Value = poison(memory_type(t.dtype).lanes(lanes))
        for part, start in enumerate(starts):
            first = b.gep(at, [I64(start)], source_etype=memory_type(t.dtype))
            loaded = b.load(first, typ=picked.type, align=_align(t), memory=self.memory(t))
            sources = [min(i * stride // lanes, stride - 1) for i in range(lanes)]
            picked = shuffled(b, picked, loaded, [lanes + i * stride - start if sources[i] == part else i for i in range(lanes)])
        return picked

    def _masked_store(self, t: Tensor, at: ir.Value, stride: int, stored: ir.Value, lanes: int, mask: ir.Value | None) -> None:
        if lanes == 1:
            stored = _one_lane(self.builder, stored)
        where, contiguous = self._addresses(t, at, stride, lanes)
        name = f"llvm.masked.{'store' if contiguous else 'scatter'}.{mangled(stored.type)}.{mangled(where.type)}"
        on = self._mask(mask, lanes)
        if 1 < lanes <= I64.width and t.dtype.bits < I32.width and has_narrowing_stores(self.target.isa):
            on = _hide(self.builder, on)
        call(self.builder, name, VOID, [stored, where, I32(_align(t)), on], self.memory(t))
        # The processor does not forward a masked store to a load, so later loads of the same lanes get the value from here.
        if contiguous and mask is not None and lanes > 1:
            read = [where, I32(_align(t)), mask, constant(stored.type, 0)]
            function = declare(self.builder.module, f"llvm.masked.load.{mangled(stored.type)}.p0", stored.type, [a.type for a in read])
            self.builder.record_read(self.builder.select(mask, stored, constant(stored.type, 0)), function, read, self.memory(t))

    def _addresses(self, t: Tensor, at: ir.Value, stride: int, lanes: int) -> tuple[ir.Value, bool]:
        """(the address, True) for contiguous elements, (a vector of addresses, False) otherwise."""
        if stride == 1 or lanes == 1:
            return at, True
        steps = ir.Constant(I64.lanes(lanes), [stride * lane for lane in range(lanes)])
        return self.builder.gep(splat(self.builder, at, lanes), [steps], source_etype=memory_type(t.dtype)), False

    def memory(self, t: Tensor) -> ir.Memory:
        if t.scope is not Scope.register:
            return self.memories[_base(t)]
        if t.name not in self.memories:
            self.memories[t.name] = ir.Memory(t.name, frozenset([t.name]))
        return self.memories[t.name]

    def _mask(self, mask: ir.Value | None, lanes: int) -> ir.Value:
        if mask is None:
            return constant(I1.lanes(lanes), 1)
        return _one_lane(self.builder, mask) if lanes == 1 else mask


def _align(t: Tensor) -> int:
    """The alignment in bytes that all its elements have."""
    return max(1, t.dtype.bits // 8)


def _one_lane(b: ir.IRBuilder, scalar: ir.Value) -> ir.Value:
    return b.insert_element(poison(scalar.type.lanes(1)), scalar, I32(0))


def _hide(b: ir.IRBuilder, mask: ir.Value) -> ir.Value:
    """The mask, hidden from LLVM's optimisations by empty assembly.

    A workaround for a bug of LLVM 22 (X86): a masked store whose only active lane is known, of a value truncated from 32 bits, becomes a
    store of all 32 bits, which overwrites what follows a bf16 or an 8-bit number.
    """
    narrow = ir.IntType(mask.type.count)
    register = I32 if narrow.width <= I32.width else I64
    bits = b.bitcast(mask, narrow)
    wide = b.zext(bits, register) if narrow.width < register.width else bits
    same = b.asm(ir.FunctionType(register, [register]), "", "=r,0", [wide])
    return b.bitcast(b.trunc(same, narrow) if narrow.width < register.width else same, mask.type)


def _every_other(b: ir.IRBuilder, mask: ir.Value | None, first: int) -> ir.Value | None:
    """Lanes first, first + 2, ... of a mask; a scalar if that is one lane."""
    if mask is None:
        return None
    lanes = list(range(first, lanes_of(mask), 2))
    if len(lanes) == 1:
        return b.extract_element(mask, I32(first))
    return shuffled(b, mask, poison(mask.type), lanes)


def _interleaved(b: ir.IRBuilder, evens: ir.Value, odds: ir.Value) -> ir.Value:
    """evens[0], odds[0], evens[1], ...; evens may have one lane more."""
    n, lanes = lanes_of(evens), lanes_of(evens) + lanes_of(odds)
    evens, odds = (_one_lane(b, x) if lanes_of(x) == 1 else x for x in (evens, odds))
    if lanes % 2:
        odds = shuffled(b, odds, poison(odds.type), [*range(n - 1), 0])
    return shuffled(b, evens, odds, [k // 2 + (n if k % 2 else 0) for k in range(lanes)])


def _spread(builder: ir.IRBuilder, value: ir.Value, mask: ir.Value | None, stride: int) -> tuple[ir.Value, ir.Value]:
    """The lanes spread `stride` apart in a wider vector, and the mask of these lanes."""
    lanes = value.type.count
    wide = shuffled(builder, value, poison(value.type), [i // stride for i in range(lanes * stride)])
    if mask is None:
        return wide, ir.Constant(I1.lanes(lanes * stride), [int(i % stride == 0) for i in range(lanes * stride)])
    off = constant(mask.type, 0)
    return wide, shuffled(builder, mask, off, [lanes if i % stride else i // stride for i in range(lanes * stride)])


def _base(t: Tensor) -> str:
    """The name of the parameter or arena that holds a tensor."""
    if t.scope is Scope.param:
        return t.name
    return SHARED_ARENA if t.scope is Scope.shared else THREAD_ARENA
