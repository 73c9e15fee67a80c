"""One LLVM function being filled: its builder, what its variables are, and where its tensors lie."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from benchgraph.codegen import ir
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
    stack,
    vector,
)
from benchgraph.codegen.tile_registers import Shapes
from benchgraph.core.dtypes import DType
from benchgraph.core.target import LINE_BYTES, Target, on_line
from benchgraph.tir.affine import Range
from benchgraph.tir.ir import Expr, Func, Scope, Stmt, Tensor, Var
from benchgraph.tir.vector_loops import CLOSE, LINE_LANES, closest
from benchgraph.tir.visit import tensor_names

SHARED_ARENA, THREAD_ARENA = "shared arena", "thread arena"

APART_BYTES = 128 << 10
"""Between the arenas of two threads. Who writes a tall block of rows that lie kilobytes apart has later rows fetched ahead, beyond the
end of its own arena, and takes those lines from the core that writes them. Two Zen 5 cores on chiplets of their own, MLP_1 at batch 128,
in us: arenas next to each other bf16 59 to 62, f32 105, 4 KiB between them 58 and 105, 16 KiB 50 and 102, 64 KiB 50 and 98, 128 KiB 50
and 98; f32 at batch 512 442 to 478, 64 KiB between them 401 to 450, 128 KiB 386 to 406. On one chiplet 50, 98 and 396 with and without.
"""


def thread_stride(func: Func) -> int:
    """Bytes from one thread's arena to the next one's."""
    return on_line(func.thread_bytes) + APART_BYTES if func.thread_bytes else 0


def thread_arenas(func: Func, threads: int) -> int:
    """Bytes of all of them."""
    return on_line(func.thread_bytes) + thread_stride(func) * (threads - 1)


def memories(module: ir.Module, func: Func) -> dict[str, ir.Memory]:
    """The parameters and arenas by name, each with an alias scope of its own that says that it is separate memory.

    Tensors within an arena share a scope: plan-buffers lets them share bytes. Of parameters that may be one memory (func.inplace) neither
    is said to be apart from the other.
    """
    names = (*(p.name for p in func.params), SHARED_ARENA, THREAD_ARENA)
    domain = module.add_metadata([f"tensors of {func.name}"])
    scopes = {name: module.add_metadata([name, domain]) for name in names}
    together = {name: {name} for name in names}
    for pair in func.inplace:
        together[pair.dst].add(pair.src)
        together[pair.src].add(pair.dst)
    out = {}
    for name, overlaps in together.items():
        others = module.add_metadata([scope for other, scope in scopes.items() if other not in overlaps])
        marks = f", !alias.scope {module.add_metadata([scopes[name]]).ref}, !noalias {others.ref}"
        out[name] = ir.Memory(name, frozenset(overlaps), marks)
    return out


@dataclass(frozen=True)
class Call:
    """function(addresses of these elements, numbers, variables of loops, what the registers hold). shapes: of tile registers, if a task is
    to see to them."""

    function: ir.Function
    places: tuple[tuple[Tensor, Expr], ...]
    numbers: tuple[int, ...] = ()
    outer: tuple[Var, ...] = ()
    held: tuple[Tensor, ...] = ()
    shapes: Shapes | None = None


Calls: TypeAlias = dict[int, tuple[Call, ...]]  # of a statement, by its id(): what it does, in this order


@dataclass
class Frame:
    """The state of emitting one LLVM function.

    argv: the array of parameter and arena pointers. calls: of the function's statements. variables: loop variables in scope. ranges: where
    those lie. registers: their allocas. bases: parameter or arena name -> pointer. memories: parameter, arena or register name -> what
    accesses to it touch. is_task: inside a parallel loop, where a further parallel loop runs serially. is_streaming: whether something it
    stores goes past the caches.
    """

    builder: ir.IRBuilder
    func: Func
    target: Target
    memories: dict[str, ir.Memory]
    argv: ir.Value
    calls: Calls
    is_task: bool
    variables: dict[str, ir.Value] = field(default_factory=dict)
    ranges: dict[str, Range] = field(default_factory=dict)
    registers: dict[str, ir.Value] = field(default_factory=dict)
    bases: dict[str, ir.Value] = field(default_factory=dict)
    is_streaming: bool = False

    def load_bases(self, thread: ir.Value, body: Stmt) -> None:
        """Load the pointers of argv that this body may use, once, at the start of the function. Whether arenas are used the body's
        tensors do not say: instruction selection drops what is not.
        """
        b = self.builder
        names = [*(p.name for p in self.func.params), SHARED_ARENA, THREAD_ARENA]
        pointers = ir.Memory("pointers", frozenset(), f", !invariant.load {b.module.add_metadata([]).ref}")
        used = {SHARED_ARENA, THREAD_ARENA, *tensor_names(body)}
        for position, name in ((i, name) for i, name in enumerate(names) if name in used):
            self.bases[name] = b.load(b.gep(self.argv, [I64(position)], inbounds=True, source_etype=PTR), typ=PTR, memory=pointers)
        offset = b.mul(thread, I64(thread_stride(self.func)))
        self.bases[THREAD_ARENA] = b.gep(self.bases[THREAD_ARENA], [offset], inbounds=True, source_etype=I8)

    def declare_register(self, t: Tensor) -> None:
        self.registers[t.name] = stack(self.builder, vector(memory_type(t.dtype), t.lanes), t.name)

    def element(self, t: Tensor, index: ir.Value) -> ir.Value:
        """The address of element `index` of a parameter or an arena tensor; for s4 and u4, of the byte that holds it."""
        start = self.bases[_base(t)]
        if t.offset:
            start = self.builder.gep(start, [I64(t.offset)], inbounds=True, source_etype=I8)
        if t.dtype.is_packed:
            index = self.builder.lshr(index, I64(1))
        return self.builder.gep(start, [index], source_etype=memory_type(t.dtype))

    def load(self, t: Tensor, index: ir.Value | None, stride: int, lanes: int, mask: ir.Value | None, odd: int | None = None) -> ir.Value:
        """`lanes` elements from index on, `stride` apart; lanes that the mask switches off are 0. index None: a register.

        odd: index % 2 where that is known, which counts for elements that share bytes.
        """
        b = self.builder
        if index is None:
            loaded = b.load(self.registers[t.name], typ=vector(memory_type(t.dtype), lanes), memory=self.memory(t))
            value = from_memory(b, loaded, t.dtype)
            return value if mask is None else b.select(mask, value, constant(value.type, 0))
        if t.dtype.is_packed:
            return self._load_packed(t, index, stride, lanes, mask, odd)
        return from_memory(b, self._load_at(t, self.element(t, index), stride, lanes, mask), t.dtype)

    def _load_at(self, t: Tensor, at: ir.Value, stride: int, lanes: int, mask: ir.Value | None) -> ir.Value:
        """`lanes` units of the memory type from an address on, `stride` of them apart; nothing behind the last one is read."""
        if 1 < stride <= CLOSE and lanes > stride:
            return self._close_load(t, at, stride, lanes, mask)
        b = self.builder
        if mask is None and (stride == 1 or lanes == 1):
            return b.load(at, typ=vector(memory_type(t.dtype), lanes), align=_align(t), memory=self.memory(t))
        loaded = self._masked_load(t, at, stride, lanes, mask)
        return b.extract_element(loaded, I32(0)) if lanes == 1 else loaded

    def _load_packed(self, t: Tensor, index: ir.Value, stride: int, lanes: int, mask: ir.Value | None, odd: int | None) -> ir.Value:
        """Elements of s4 or u4, each as its number in an i8. odd: index % 2 where that is known.

        With an even stride all lanes are in the same half of their bytes. With an odd one that is true of the even lanes and of the odd
        ones, which are loaded apart, bytes `stride` apart (neighbours for stride 1), and interleaved. Where it is known which half, both
        may be one load.
        """
        b = self.builder
        if lanes == 1 or stride % 2 == 0:
            held = self._load_at(t, self.element(t, index), stride // 2, lanes, mask)
            high: ir.Value = b.trunc(b.and_(index, I64(1)), I8) if odd is None else I8(odd)
            up = splat(b, b.sub(I8(4), b.shl(high, I8(2))), lanes)  # to the high half, from where the next shift extends the sign
            return (b.ashr if t.dtype is DType.s4 else b.lshr)(b.shl(held, up), constant(held.type, 4))
        evens = self._load_packed(t, index, 2 * stride, (lanes + 1) // 2, _every_other(b, mask, 0), odd)
        following = b.add(index, I64(stride - 1 if odd == 0 else stride))  # either element of its byte will do
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
        """The counterpart of load: lanes that the mask switches off keep what they hold. non_temporal: as in `tir.ir.Store`."""
        b = self.builder
        stored = to_memory(b, value, t.dtype)
        if index is None:
            register, memory = self.registers[t.name], self.memory(t)
            new = stored if mask is None else b.select(mask, stored, b.load(register, typ=stored.type, memory=memory))
            b.store(new, register, memory=memory)
            return
        at = self.element(t, index)
        if 1 < stride <= closest(t.dtype) and lanes > stride:
            stored, mask = _spread(b, stored, mask, stride)
            lanes, stride = lanes * stride, 1
        if non_temporal:
            self._store_non_temporal(t, at, stored)
        elif mask is None and (stride == 1 or lanes == 1):
            b.store(stored, at, align=_align(t), memory=self.memory(t))
        else:
            self._masked_store(t, at, stride, stored, lanes, mask)

    def _store_non_temporal(self, t: Tensor, at: ir.Value, stored: ir.Value) -> None:
        """The processor wants whole lines for it, and where a user's tensor begins is known when the code runs.

        Narrow floats as words, in a way that LLVM does not see through: of a vector of bfloat or half 22 forgets where it goes.
        """
        b, self.is_streaming = self.builder, True
        if t.dtype.is_float and t.dtype.bits < I32.width and self.target.lanes == LINE_LANES:
            words = ir.VectorType(I64, LINE_BYTES * 8 // I64.width)
            stored = b.asm(ir.FunctionType(words, [words]), "", "=v,0", [b.bitcast(stored, words)])
        within = b.and_(b.ptrtoint(self.bases[_base(t)], I64), I64(LINE_BYTES - 1))
        with b.if_else(b.icmp_signed("==", within, I64(0))) as (on_line, otherwise):
            with on_line:
                b.store(stored, at, align=LINE_BYTES, memory=self.memory(t), non_temporal=True)
            with otherwise:
                b.store(stored, at, align=_align(t), memory=self.memory(t))

    def finish(self) -> None:
        """The end of the function. What went past the caches is in memory before anybody hears of it."""
        if self.is_streaming:
            call(self.builder, "llvm.x86.sse.sfence", VOID, [], ir.ANYWHERE)
        self.builder.ret_void()

    def _masked_load(self, t: Tensor, at: ir.Value, stride: int, lanes: int, mask: ir.Value | None) -> ir.Value:
        type = ir.VectorType(memory_type(t.dtype), lanes)
        where, contiguous = self._places(t, at, stride, lanes)
        name = f"llvm.masked.{'load' if contiguous else 'gather'}.{mangled(type)}.{mangled(where.type)}"
        return call(self.builder, name, type, [where, I32(_align(t)), self._mask(mask, lanes), constant(type, 0)], self.memory(t))

    def _close_load(self, t: Tensor, at: ir.Value, stride: int, lanes: int, mask: ir.Value | None) -> ir.Value:
        """Every stride-th unit, picked from whole vectors: four times faster than a gather."""
        b, reach = self.builder, (lanes - 1) * stride + 1
        if mask is not None:
            wide = [-(-i // stride) if i < reach else lanes for i in range(lanes * stride)]  # what lies before a lane that is on
            loaded = self._masked_load(t, at, 1, lanes * stride, shuffled(b, mask, constant(mask.type, 0), wide))
            return shuffled(b, loaded, poison(loaded.type), [i * stride for i in range(lanes)])
        starts = [*(part * lanes for part in range(stride - 1)), reach - lanes]
        found: ir.Value = poison(ir.VectorType(memory_type(t.dtype), lanes))
        for part, start in enumerate(starts):
            first = b.gep(at, [I64(start)], source_etype=memory_type(t.dtype))
            loaded = b.load(first, typ=found.type, align=_align(t), memory=self.memory(t))
            homes = [min(i * stride // lanes, stride - 1) for i in range(lanes)]
            found = shuffled(b, found, loaded, [lanes + i * stride - start if homes[i] == part else i for i in range(lanes)])
        return found

    def _masked_store(self, t: Tensor, at: ir.Value, stride: int, stored: ir.Value, lanes: int, mask: ir.Value | None) -> None:
        if lanes == 1:
            stored = _one_lane(self.builder, stored)
        where, contiguous = self._places(t, at, stride, lanes)
        name = f"llvm.masked.{'store' if contiguous else 'scatter'}.{mangled(stored.type)}.{mangled(where.type)}"
        on = self._mask(mask, lanes)
        if 1 < lanes <= I64.width and t.dtype.bits < I32.width and has_narrowing_stores(self.target.isa):
            on = _unknown(self.builder, on)
        call(self.builder, name, VOID, [stored, where, I32(_align(t)), on], self.memory(t))
        if contiguous and mask is not None and lanes > 1:  # else a load of these bytes waits for the store to reach the cache
            read = [where, I32(_align(t)), mask, constant(stored.type, 0)]
            function = declare(self.builder.module, f"llvm.masked.load.{mangled(stored.type)}.p0", stored.type, [a.type for a in read])
            self.builder.wrote(self.builder.select(mask, stored, constant(stored.type, 0)), function, read, self.memory(t))

    def _places(self, t: Tensor, at: ir.Value, stride: int, lanes: int) -> tuple[ir.Value, bool]:
        """(the address and True) for neighbours, (a vector of addresses and False) otherwise."""
        if stride == 1 or lanes == 1:
            return at, True
        steps = ir.Constant(ir.VectorType(I64, lanes), [stride * lane for lane in range(lanes)])
        return self.builder.gep(splat(self.builder, at, lanes), [steps], source_etype=memory_type(t.dtype)), False

    def memory(self, t: Tensor) -> ir.Memory:
        if t.scope is not Scope.register:
            return self.memories[_base(t)]
        if t.name not in self.memories:
            self.memories[t.name] = ir.Memory(t.name, frozenset([t.name]))
        return self.memories[t.name]

    def _mask(self, mask: ir.Value | None, lanes: int) -> ir.Value:
        if mask is None:
            return constant(ir.VectorType(I1, lanes), 1)
        return _one_lane(self.builder, mask) if lanes == 1 else mask


def _align(t: Tensor) -> int:
    """Bytes to whose multiples its addresses are certain to be aligned."""
    return max(1, t.dtype.bits // 8)


def _one_lane(b: ir.IRBuilder, scalar: ir.Value) -> ir.Value:
    return b.insert_element(poison(ir.VectorType(scalar.type, 1)), scalar, I32(0))


def _unknown(b: ir.IRBuilder, mask: ir.Value) -> ir.Value:
    """The mask as a value that LLVM knows nothing about.

    Of a masked store whose only active lane it knows, and whose value is narrowed from 32 bits, LLVM 22 makes a store of all 32 bits:
    what lies behind a bf16 or an 8-bit number is overwritten (X86: the narrowing store and the store of one lane are combined in turn).
    """
    narrow = ir.IntType(mask.type.count)
    register = I32 if narrow.width <= I32.width else I64
    bits = b.bitcast(mask, narrow)
    wide = b.zext(bits, register) if narrow.width < register.width else bits
    same = b.asm(ir.FunctionType(register, [register]), "", "=r,0", [wide])
    return b.bitcast(b.trunc(same, narrow) if narrow.width < register.width else same, mask.type)


def _every_other(b: ir.IRBuilder, mask: ir.Value | None, first: int) -> ir.Value | None:
    """Lanes first, first + 2, ... of a mask; a scalar when that is one."""
    if mask is None:
        return None
    lanes = list(range(first, lanes_of(mask), 2))
    if len(lanes) == 1:
        return b.extract_element(mask, I32(first))
    return shuffled(b, mask, poison(mask.type), lanes)


def _interleaved(b: ir.IRBuilder, evens: ir.Value, odds: ir.Value) -> ir.Value:
    """evens[0], odds[0], evens[1], ...; there may be one more of the evens."""
    n, lanes = lanes_of(evens), lanes_of(evens) + lanes_of(odds)
    evens, odds = (_one_lane(b, x) if lanes_of(x) == 1 else x for x in (evens, odds))
    if lanes % 2:
        odds = shuffled(b, odds, poison(odds.type), [*range(n - 1), 0])
    return shuffled(b, evens, odds, [k // 2 + (n if k % 2 else 0) for k in range(lanes)])


def _spread(builder: ir.IRBuilder, value: ir.Value, mask: ir.Value | None, stride: int) -> tuple[ir.Value, ir.Value]:
    """The lanes `stride` places apart in a wider vector, and the mask that leaves out what lies between them."""
    lanes = value.type.count
    wide = shuffled(builder, value, poison(value.type), [i // stride for i in range(lanes * stride)])
    if mask is None:
        return wide, ir.Constant(ir.VectorType(I1, lanes * stride), [int(i % stride == 0) for i in range(lanes * stride)])
    off = constant(mask.type, 0)
    return wide, shuffled(builder, mask, off, [lanes if i % stride else i // stride for i in range(lanes * stride)])


def _base(t: Tensor) -> str:
    """The name of the memory a tensor lies in."""
    if t.scope is Scope.param:
        return t.name
    return SHARED_ARENA if t.scope is Scope.shared else THREAD_ARENA
