"""The text that the builder writes: LLVM takes it, nothing is computed or read twice, and nothing is known for longer than it is true."""

from __future__ import annotations

import struct
from collections.abc import Callable

import llvmlite.binding as llvm
import pytest

from benchgraph.codegen import ir
from benchgraph.codegen.intrinsics import F32, I1, I32, I64, PTR, VOID, call, constant, create_target_machine, declare, poison, vector
from benchgraph.machine.target import ISAS

A, B = ir.Memory("a", frozenset("a")), ir.Memory("b", frozenset("b"))
BOTH = ir.Memory("both", frozenset(("a", "both")))


def built(write: Callable[[ir.IRBuilder, list[ir.Argument]], None], args: tuple[ir.Type, ...] = (PTR, PTR, I64, F32)) -> str:
    """The text of a function with this body, which LLVM has verified."""
    create_target_machine(ISAS["portable"])
    module = ir.Module("test")
    function = ir.Function(module, ir.FunctionType(VOID, args), "run")
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    write(builder, function.args)
    builder.ret_void()
    text = str(module)
    llvm.parse_assembly(text).verify()
    return text


def test_what_was_computed_is_not_computed_again() -> None:
    def write(b: ir.IRBuilder, args: list[ir.Argument]) -> None:
        x, y = b.mul(args[2], I64(3)), b.mul(args[2], I64(3))
        assert x is y
        assert b.mul(args[2], I64(4)) is not x
        assert b.icmp_signed("<", x, I64(1)) is not b.icmp_unsigned("<", x, I64(1))

    assert built(write).count("mul") == 2


def test_what_a_branch_computed_is_known_in_it_alone() -> None:
    def write(b: ir.IRBuilder, args: list[ir.Argument]) -> None:
        before = b.mul(args[2], I64(3))
        with b.if_then(b.icmp_signed("<", before, I64(7))):
            assert b.mul(args[2], I64(3)) is before
            inside = b.mul(args[2], I64(5))
        assert b.mul(args[2], I64(5)) is not inside
        with b.if_else(b.icmp_signed("<", before, I64(8))) as (then, otherwise):
            with then:
                one = b.mul(args[2], I64(6))
            with otherwise:
                assert b.mul(args[2], I64(6)) is not one

    built(write)


def test_integers_that_are_known_are_not_computed() -> None:
    def write(b: ir.IRBuilder, args: list[ir.Argument]) -> None:
        n = args[2]
        assert b.add(n, I64(0)) is b.add(I64(0), n) is b.mul(n, I64(1)) is b.mul(I64(1), n) is n
        assert str(b.add(I64(2), I64(3))) == "i64 5"
        assert str(b.mul(n, I64(0))) == str(b.mul(I64(0), n)) == "i64 0"
        assert b.gep(args[0], [I64(0)], source_etype=F32) is args[0]
        assert b.bitcast(n, I64) is n

    assert "add" not in built(write)


@pytest.mark.parametrize(
    ("read", "write", "is_kept"),
    [
        (A, A, False),
        (A, B, True),
        (A, BOTH, False),
        (B, BOTH, True),
        (A, ir.ANYWHERE, False),
        (ir.ANYWHERE, A, False),
        (ir.NOWHERE, A, True),
    ],
    ids=lambda m: m.name if isinstance(m, ir.Memory) else "",
)
def test_what_was_read_is_read_again_only_after_a_write_that_may_overlap_it(read: ir.Memory, write: ir.Memory, is_kept: bool) -> None:
    def body(b: ir.IRBuilder, args: list[ir.Argument]) -> None:
        first = b.load(args[0], typ=F32, memory=read)
        assert b.load(args[0], typ=F32, memory=read) is first
        assert b.load(args[0], typ=I32, memory=read) is not first
        b.store(args[3], args[1], memory=write)
        assert (b.load(args[0], typ=F32, memory=read) is first) == is_kept
        again = b.load(args[0], typ=F32, memory=read)
        call(b, "llvm.test.writes", VOID, [args[0]], write)
        assert (b.load(args[0], typ=F32, memory=read) is again) == is_kept

    text = built(body)
    assert text.count("load float") == (1 if is_kept else 3)


def test_a_call_that_writes_anything_and_a_loop_that_may_forget() -> None:
    def write(b: ir.IRBuilder, args: list[ir.Argument]) -> None:
        x, y = (b.load(pointer, typ=F32, memory=memory) for pointer, memory in zip(args[:2], (A, B), strict=True))
        body = b.append_basic_block("body", [B])
        b.branch(body)
        b.position_at_end(body)
        assert b.load(args[0], typ=F32, memory=A) is x
        assert b.load(args[1], typ=F32, memory=B) is not y
        b.call(declare(b.module, "anything", VOID, [PTR]), [args[0]])
        assert b.load(args[0], typ=F32, memory=A) is not x

    built(write)


def test_what_was_stored_is_what_a_load_reads() -> None:
    def write(b: ir.IRBuilder, args: list[ir.Argument]) -> None:
        b.store(args[3], args[0], align=4, memory=A)
        assert b.load(args[0], typ=F32, align=4, memory=A) is args[3]
        b.store(constant(F32, 1.0), args[1], align=4, memory=B)
        assert b.load(args[0], typ=F32, align=4, memory=A) is args[3]
        b.store(constant(F32, 1.0), b.gep(args[0], [I64(1)], source_etype=F32), align=4, memory=A)
        assert b.load(args[0], typ=F32, align=4, memory=A) is not args[3]

    built(write)


@pytest.mark.parametrize("value", [0.0, -0.0, 1.0, -1.5, 0.1, 3.4028234663852886e38, 1e-45, float("inf"), float("-inf"), float("nan")])
def test_floats_are_spelt_with_all_their_bits(value: float) -> None:
    spelt = str(ir.Constant(F32, value))
    single = struct.unpack("f", struct.pack("f", value))[0]
    assert spelt == f"float 0x{struct.pack('>d', single).hex()}"
    built(lambda b, args: b.store(constant(F32, value), args[0]))


def test_names_are_what_was_asked_for_and_unique() -> None:
    def write(b: ir.IRBuilder, args: list[ir.Argument]) -> None:
        slots = [b.alloca(F32, name) for name in ("x", "x", "", 'a"b', "ü")]
        assert len({s.ref for s in slots}) == len(slots)
        for slot in slots:
            b.store(args[3], slot)

    text = built(write)
    assert '%"x" = alloca float' in text
    assert '%"x.1" = alloca float' in text


def test_a_slot_is_made_where_the_function_is_entered() -> None:
    def write(b: ir.IRBuilder, args: list[ir.Argument]) -> None:
        with b.if_then(b.icmp_signed("<", args[2], I64(7))):
            b.store(args[3], b.alloca(F32, "late"))

    text = built(write)
    assert text.index("alloca") < text.index("br i1")


def test_types_are_equal_by_what_they_are() -> None:
    assert vector(F32, 4) == ir.VectorType(ir.FloatingType("float"), 4) != vector(F32, 8)
    assert len({vector(I32, 4), vector(I32, 4), vector(I32, 1), I32}) == 2
    assert (vector(I32, 4).count, vector(I32, 4).element.width, I32.count, I32.element) == (4, 32, 1, I32)


def test_every_form_of_instruction_is_one_that_llvm_takes() -> None:
    def write(b: ir.IRBuilder, args: list[ir.Argument]) -> None:
        n, x = args[2], args[3]
        for name in ("add", "sub", "mul", "sdiv", "srem", "shl", "lshr", "ashr", "and_", "or_", "xor"):
            n = getattr(b, name)(n, args[2])
        for name in ("fadd", "fsub", "fmul", "fdiv"):
            x = getattr(b, name)(x, args[3], ("contract",))
        n, x = b.neg(n), b.fneg(x)
        for where in ("==", "!=", "<", "<=", ">", ">="):
            for compare, v in ((b.icmp_signed, n), (b.icmp_unsigned, n), (b.fcmp_ordered, x), (b.fcmp_unordered, x)):
                x = b.select(compare(where, v, v), x, args[3])
        x = b.select(b.fcmp_ordered("ord", x, x), x, b.select(b.fcmp_unordered("uno", x, x), args[3], x))
        small = b.sext(b.trunc(n, I32), I64)
        bits = b.zext(b.bitcast(b.uitofp(b.fptosi(b.sitofp(small, F32), I32), F32), I32), I64)
        wide = b.insert_element(poison(vector(F32, 4)), x, I32(0))
        wide = b.shuffle_vector(wide, poison(wide.type), ir.Constant(vector(I32, 8), [0] * 8))
        lanes = b.icmp_signed("==", ir.Constant(vector(I64, 8), list(range(8))), constant(vector(I64, 8), 3))
        assert lanes.type == vector(I1, 8)
        b.store(b.extract_element(wide, I32(7)), b.gep(args[0], [bits], source_etype=F32, inbounds=True), align=4)
        places = b.gep(args[0], [ir.Constant(vector(I64, 8), list(range(8)))], source_etype=F32)
        assert places.type == vector(PTR, 8)
        b.store(b.asm(ir.FunctionType(I32, [I32]), "", "=r,0", [b.trunc(n, I32)]), args[1])

    built(write)


def test_a_function_is_defined_once() -> None:
    module = ir.Module("test")
    ir.Function(module, ir.FunctionType(VOID, []), "f")
    assert module.get_unique_name("f") == "f.1"
    with pytest.raises(ValueError, match="has a f already"):
        ir.Function(module, ir.FunctionType(VOID, []), "f")


def test_a_function_of_another_module_is_declared_where_it_is_called() -> None:
    """Once, as what it is, and not defined again."""
    home, module = ir.Module("home"), ir.Module("away")
    callee = ir.Function(home, ir.FunctionType(VOID, [PTR, I64]), "callee")
    callee.attributes.add("nounwind")
    ir.IRBuilder(callee.append_basic_block()).ret_void()
    caller = ir.Function(module, ir.FunctionType(VOID, [PTR]), "caller")
    builder = ir.IRBuilder(caller.append_basic_block())
    for size in (1, 2):
        builder.call(callee, [caller.args[0], I64(size)])
    builder.ret_void()
    assert [line for line in str(module).splitlines() if line.startswith("de")] == [
        'define void @"caller"(ptr %arg0) {',
        'declare void @"callee"(ptr, i64) nounwind',
    ]
    assert "declare" not in str(home)
    llvm.parse_assembly(str(module)).verify()
