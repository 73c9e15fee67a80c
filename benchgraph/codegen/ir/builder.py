"""The builder: one method per instruction, which appends it and returns its value."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

from benchgraph.codegen.ir.module import Block, Function, Module, Phi
from benchgraph.codegen.ir.values import ANYWHERE, I1, PTR, VOID, Constant, FunctionType, Memory, Type, Value, VectorType, quoted

_PREDICATES = {"==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}


def _binary(name: str) -> Callable[[IRBuilder, Value, Value], Value]:
    """The method of an instruction with two operands."""
    return lambda builder, a, b: builder.binary(name, a, b)


def _conversion(name: str) -> Callable[[IRBuilder, Value, Type], Value]:
    """The method of an instruction that converts to a type."""
    return lambda builder, a, type: a if a.type == type else builder.computed(type, f"{name} {a} to {type.text}")


class IRBuilder:
    """Appends instructions to `block`, its position. Types of operands are not checked here; LLVM's verifier does."""

    def __init__(self, block: Block) -> None:
        self.block = block
        self._numbers = block.function.numbers

    @property
    def function(self) -> Function:
        return self.block.function

    @property
    def module(self) -> Module:
        return self.function.module

    # -- blocks

    def append_basic_block(self, name: str = "block", changed: Collection[Memory] = (ANYWHERE,)) -> Block:
        """A new block of the function, which this one dominates: values that are available here are available there.

        changed: memories that may be written between the end of this block and the new one.
        """
        block = self.function.append_basic_block(name)
        block.known = self.block.known.copy()
        invalid = set[str]().union(*(m.overlaps for m in changed if m.overlaps is not None), (ANYWHERE.name,))
        if all(m.overlaps is not None for m in changed):
            block.read = {name: values.copy() for name, values in self.block.read.items() if name not in invalid}
        return block

    def position_at_end(self, block: Block) -> None:
        self.block = block

    def branch(self, target: Block) -> None:
        self.block.lines.append(f"br label {target.ref}")

    def cbranch(self, condition: Value, then: Block, otherwise: Block) -> None:
        self.block.lines.append(f"br i1 {condition.ref}, label {then.ref}, label {otherwise.ref}")

    def ret_void(self) -> None:
        self.block.lines.append("ret void")

    @contextmanager
    def if_then(self, condition: Value) -> Iterator[None]:
        """What is built inside runs if the condition holds."""
        then, after = self.append_basic_block("then"), self.append_basic_block("after")
        self.cbranch(condition, then, after)
        self.position_at_end(then)
        yield
        self.branch(after)
        self.position_at_end(after)

    @contextmanager
    def if_else(self, condition: Value) -> Iterator[tuple[AbstractContextManager[None], AbstractContextManager[None]]]:
        """Two contexts to build in, one for each outcome."""
        then, otherwise, after = (self.append_basic_block(name) for name in ("then", "else", "after"))
        self.cbranch(condition, then, otherwise)
        yield self._within(then, after), self._within(otherwise, after)
        self.position_at_end(after)

    @contextmanager
    def _within(self, block: Block, after: Block) -> Iterator[None]:
        self.position_at_end(block)
        yield
        self.branch(after)

    def phi(self, type: Type, name: str = "") -> Phi:
        phi = Phi(type, f"%{quoted(self.function.unique(name))}" if name else self._new())
        self.block.phis.append(phi)
        return phi

    # -- memory and calls

    def alloca(self, type: Type, name: str = "") -> Value:
        """The address of a stack slot, allocated in the entry block, which LLVM turns into a register where it can (mem2reg)."""
        slot = Value(PTR, f"%{quoted(self.function.unique(name))}" if name else self._new())
        self.function.allocas.append(f"{slot.ref} = alloca {type.text}")
        return slot

    def load(self, pointer: Value, *, typ: Type, align: int = 0, memory: Memory = ANYWHERE) -> Value:
        """align: bytes; 0 for the natural alignment of the type."""
        return self._read(typ, _load(typ, pointer, align), memory)

    def store(self, value: Value, pointer: Value, align: int = 0, memory: Memory = ANYWHERE, *, non_temporal: bool = False) -> None:
        """non_temporal: a hint that LLVM follows if `align` is at least the value's size."""
        hint = ", !nontemporal !{i32 1}" if non_temporal else ""
        self._written(f"store {value}, ptr {pointer.ref}{_aligned(align)}{hint}", memory)
        self.block.reads(memory)[_load(value.type, pointer, align)] = value

    def call(self, function: Function, args: Sequence[Value], memory: Memory = ANYWHERE, *, tail: bool = False) -> Value:
        """A function with a result is an intrinsic that may read `memory`; one without may write it.

        tail: a call in tail position, without pointers to stack slots among its arguments.
        """
        self.module.declare(function)
        result = function.function_type.return_type
        if result != VOID:
            return self._read(result, _call(result, function.ref, args), memory)
        self._written("tail " * tail + _call(result, function.ref, args), memory)
        return Value(VOID, "")

    def asm(self, type: FunctionType, text: str, constraints: str, args: Sequence[Value]) -> Value:
        """Inline assembly without side effects."""
        return self.computed(type.return_type, _call(type.return_type, f'asm "{text}", "{constraints}"', args))

    def record_read(self, value: Value, function: Function, args: Sequence[Value], memory: Memory) -> None:
        """Record that this call would now read this value, which a store has just written."""
        self.block.reads(memory)[_call(value.type, function.ref, args)] = value

    def _read(self, type: Type, text: str, memory: Memory) -> Value:
        reads = self.block.reads(memory)
        value = reads.get(text)
        if value is None:
            value = reads[text] = Value(type, self._new())
            self.block.lines.append(f"{value.ref} = {text}{memory.metadata}")
        return value

    def _written(self, text: str, memory: Memory) -> None:
        read = self.block.read
        if memory.overlaps is None:
            read.clear()
        else:
            for name in (*memory.overlaps, ANYWHERE.name):
                read.pop(name, None)
        self.block.lines.append(text + memory.metadata)

    # -- instructions without side effects

    def gep(self, pointer: Value, indices: Sequence[Value], *, source_etype: Type, inbounds: bool = False) -> Value:
        if len(indices) == 1 and indices[0].number == 0:
            return pointer
        lanes = max(pointer.type.count, *(i.type.count for i in indices))
        result = PTR if lanes == 1 else PTR.lanes(lanes)
        flag = "inbounds " if inbounds else ""
        return self.computed(result, f"getelementptr {flag}{source_etype.text}, {pointer}, {', '.join(map(str, indices))}")

    def add(self, a: Value, b: Value, flags: Sequence[str] = ()) -> Value:
        x, y = a.number, b.number
        if x is not None and y is not None:
            return Constant(a.type, x + y)
        return a if y == 0 else b if x == 0 else self.binary("add", a, b, flags)

    def mul(self, a: Value, b: Value, flags: Sequence[str] = ()) -> Value:
        x, y = a.number, b.number
        if x is not None and y is not None:
            return Constant(a.type, x * y)
        if x == 0 or y == 1:
            return a
        return b if y == 0 or x == 1 else self.binary("mul", a, b, flags)

    def binary(self, name: str, a: Value, b: Value, flags: Sequence[str] = ()) -> Value:
        return self.computed(a.type, f"{' '.join([name, *flags])} {a.type.text} {a.ref}, {b.ref}")

    sub = _binary("sub")
    sdiv = _binary("sdiv")
    udiv = _binary("udiv")
    srem = _binary("srem")
    urem = _binary("urem")
    shl = _binary("shl")
    lshr = _binary("lshr")
    ashr = _binary("ashr")
    and_ = _binary("and")
    or_ = _binary("or")
    xor = _binary("xor")
    trunc = _conversion("trunc")
    zext = _conversion("zext")
    sext = _conversion("sext")
    fptrunc = _conversion("fptrunc")
    fpext = _conversion("fpext")
    fptosi = _conversion("fptosi")
    sitofp = _conversion("sitofp")
    uitofp = _conversion("uitofp")
    bitcast = _conversion("bitcast")
    ptrtoint = _conversion("ptrtoint")

    def fadd(self, a: Value, b: Value, flags: Sequence[str] = ()) -> Value:
        return self.binary("fadd", a, b, flags)

    def fsub(self, a: Value, b: Value, flags: Sequence[str] = ()) -> Value:
        return self.binary("fsub", a, b, flags)

    def fmul(self, a: Value, b: Value, flags: Sequence[str] = ()) -> Value:
        return self.binary("fmul", a, b, flags)

    def fdiv(self, a: Value, b: Value, flags: Sequence[str] = ()) -> Value:
        return self.binary("fdiv", a, b, flags)

    def neg(self, a: Value) -> Value:
        return self.sub(Constant(a.type, "zeroinitializer"), a)

    def fneg(self, a: Value) -> Value:
        return self.computed(a.type, f"fneg {a}")

    def icmp_signed(self, predicate: str, a: Value, b: Value) -> Value:
        return self._compared("icmp", _PREDICATES[predicate] if predicate in ("==", "!=") else f"s{_PREDICATES[predicate]}", a, b)

    def icmp_unsigned(self, predicate: str, a: Value, b: Value) -> Value:
        return self._compared("icmp", _PREDICATES[predicate] if predicate in ("==", "!=") else f"u{_PREDICATES[predicate]}", a, b)

    def fcmp_ordered(self, predicate: str, a: Value, b: Value) -> Value:
        """predicate: a comparison, or ord."""
        return self._compared("fcmp", predicate if predicate == "ord" else f"o{_PREDICATES[predicate]}", a, b)

    def fcmp_unordered(self, predicate: str, a: Value, b: Value) -> Value:
        """predicate: a comparison, or uno."""
        return self._compared("fcmp", predicate if predicate == "uno" else f"u{_PREDICATES[predicate]}", a, b)

    def select(self, condition: Value, a: Value, b: Value, *, is_likely: bool = False) -> Value:
        """is_likely: the condition, of one bit, is nearly always true: a predicted branch is faster than a data dependency."""
        hint = ', !prof !{!"branch_weights", i32 2000, i32 1}' if is_likely else ""
        return self.computed(a.type, f"select {condition}, {a}, {b}{hint}")

    def extract_element(self, vector: Value, index: Value) -> Value:
        return self.computed(vector.type.element, f"extractelement {vector}, {index}")

    def insert_element(self, vector: Value, value: Value, index: Value) -> Value:
        return self.computed(vector.type, f"insertelement {vector}, {value}, {index}")

    def shuffle_vector(self, a: Value, b: Value, lanes: Constant) -> Value:
        return self.computed(a.type.element.lanes(lanes.type.count), f"shufflevector {a}, {b}, {lanes}")

    def _new(self) -> str:
        return f"%.{next(self._numbers)}"

    def computed(self, type: Type, text: str) -> Value:
        block = self.block
        value = block.known.get(text)
        if value is None:
            value = block.known[text] = Value(type, f"%.{next(self._numbers)}")
            block.lines.append(f"{value.ref} = {text}")
        return value

    def _compared(self, name: str, predicate: str, a: Value, b: Value) -> Value:
        result = I1.lanes(a.type.count) if isinstance(a.type, VectorType) else I1
        return self.computed(result, f"{name} {predicate} {a.type.text} {a.ref}, {b.ref}")


def _aligned(align: int) -> str:
    return f", align {align}" if align else ""


def _load(type: Type, pointer: Value, align: int) -> str:
    return f"load {type.text}, ptr {pointer.ref}{_aligned(align)}"


def _call(result: Type, what: str, args: Sequence[Value]) -> str:
    return f"call {result.text} {what}({', '.join(map(str, args))})"
