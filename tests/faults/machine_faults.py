"""Mistakes of code generation and of the runtime."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache

from benchgraph.codegen import amx, convert, dot, ir, microkernel, pack, tile_plan
from benchgraph.codegen.emit import PARALLEL
from benchgraph.codegen.intrinsics import I16, I32, constant, same_lanes
from benchgraph.codegen.kernel import Kernel
from benchgraph.core.dtypes import DType
from benchgraph.machine.target import ISAS, Isa, Target, host
from benchgraph.runtime.code import Code, load
from tests.faults.inject import in_place_of


def _upper_half(builder: ir.IRBuilder, x: ir.Value) -> ir.Value:
    bits = builder.bitcast(x, same_lanes(x, I32))
    return builder.trunc(builder.lshr(bits, constant(bits.type, 16)), same_lanes(x, I16))


@in_place_of("benchgraph.codegen.convert._f32_to_bf16", "op/typecast.json")
def bf16_truncated(builder: ir.IRBuilder, x: ir.Value, isa: Isa) -> ir.Value:
    """Towards zero instead of to the nearest."""
    return _upper_half(builder, x)


@in_place_of("benchgraph.codegen.convert._f32_to_bf16", "op/gelu.json", options=("--dt=bf16",))
def bf16_results_truncated(builder: ir.IRBuilder, x: ir.Value, isa: Isa) -> ir.Value:
    """The same where arithmetic before it has an error of its own, for which the comparison makes allowances."""
    return _upper_half(builder, x)


@in_place_of("benchgraph.codegen.convert._f32_to_integer", "op/quantize_saturated.json")
def integers_wrap_around(builder: ir.IRBuilder, x: ir.Value, dtype: DType, isa: Isa) -> ir.Value:
    """No saturation: what is too large loses its upper bits."""
    whole = builder.fptosi(convert.round_even(builder, x, isa), same_lanes(x, I32))
    return builder.trunc(whole, convert.value_type(dtype, convert.lanes_of(x)))


@in_place_of("benchgraph.codegen.convert.rounded_to_s32", "op/quantize.json")
def integers_truncated(builder: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """Towards zero, as a plain conversion does."""
    return builder.fptosi(x, convert.same_lanes(x, ir.IntType(32)))


@in_place_of("benchgraph.runtime.jit.runtime_symbol", "pattern/mlp_residual.json", in_program=False)
def last_chunk_lost(kind: str, threads: int) -> int:
    """Tasks are dealt out in equal chunks, and what does not divide is dealt to nobody."""
    return _uneven().address(PARALLEL)


@cache
def _uneven() -> Code:
    text = f"""
define void @{PARALLEL}(ptr %body, ptr %ctx, i64 %tasks) {{
  %chunk = sdiv i64 %tasks, 3
  %end = mul i64 %chunk, 3
  %any = icmp sgt i64 %end, 0
  br i1 %any, label %run, label %done
run:
  call void %body(ptr %ctx, i64 0, i64 %end, i64 0)
  br label %done
done:
  ret void
}}
"""
    return load(text, ISAS["portable"], {})


_emitter = microkernel._emitter


@in_place_of("benchgraph.codegen.microkernel._emitter", "op/matmul_batched.json")
def microkernel_rows_one_too_few(kernel: Kernel, target: Target) -> Callable[[ir.IRBuilder, Kernel, Target], amx.TileEmitter]:
    emitter = _emitter(kernel, target)
    return lambda builder, kernel, target: emitter(builder, replace(kernel, m=kernel.m - 1), target)


if host().multiplies(DType.u8):  # else words, or f32
    # tile registers have an instruction of their own
    _on_vectors = ("--isa=avx512_core_bf16",) if host().isa.has_amx else ()

    @in_place_of("benchgraph.codegen.microkernel.dot", "pattern/quantised_matmul_relu.json", options=_on_vectors)
    def signs_of_bytes_taken_for_each_other(
        builder: ir.IRBuilder, dtype: DType, a: ir.Value, b: ir.Value, acc: ir.Value, isa: Isa
    ) -> ir.Value:
        """src as signed bytes, wei as unsigned ones."""
        return dot.dot(builder, dtype, b, a, acc, isa)


if host().multiplies(DType.u8) or host().multiplies(DType.s16):  # else groups have one element
    _grouped = pack.grouped

    @in_place_of("benchgraph.codegen.pack.grouped", "pattern/quantised_matmul_relu.json")
    def groups_packed_backwards(builder: ir.IRBuilder, rows: Sequence[ir.Value], lanes: int) -> list[ir.Value]:
        """The last row of a group comes first."""
        return _grouped(builder, rows[::-1], lanes)


if host().isa.has_amx:
    _tile_instruction, _plan = amx.tile_instruction, tile_plan.plan

    @in_place_of("benchgraph.codegen.amx.tile_instruction", "pattern/quantised_matmul_relu.json")
    def signs_of_tiles_taken_for_each_other(builder: ir.IRBuilder, name: str, *args: ir.Value) -> None:
        _tile_instruction(builder, "tdpbsud" if name == "tdpbusd" else name, *args)

    @in_place_of("benchgraph.codegen.amx.plan", "op/matmul_batched.json", options=("--dt=bf16",))
    def tiles_without_the_remainder_of_k(kernel: Kernel) -> tile_plan.TilePlan:
        return replace(_plan(kernel), remainder=0)
