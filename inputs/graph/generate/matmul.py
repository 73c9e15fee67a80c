"""MatMul alone: shapes, layouts, batches, accumulation."""

from __future__ import annotations

from benchgraph.core.dtypes import DType
from benchgraph.graph import GraphBuilder

from .case import NARROW, case, layer


@case(
    "op",
    smoke=True,
    ci=(NARROW, "--in-shapes=0:1x96,0:33x96*ba+1:96x80*ba"),
    sweep=(
        "--in-shapes=0:0x96,0:64x1+1:1x80,0:31x257+1:257x1,0:1x1+1:1x1",
        "--dt=bf16 --in-shapes=0:33x95*ba+1:95x47*ba",
        "--op-attrs=0:accumulation_mode:relaxed,0:accumulation_mode:any,0:accumulation_mode:f32",
        "--attr-fpmath=bf16,any",
        "--tensor-property=1:variable",
    ),
)
def matmul(b: GraphBuilder) -> None:
    b.op("MatMul", b.input((64, 96)), b.constant((96, 80)))


@case("op", sweep=(NARROW, "--in-shapes=0:129x65,0:1x65,0:0x65"))
def matmul_bias(b: GraphBuilder) -> None:
    layer(b, b.input((33, 65)), 47)


@case(
    "op",
    sweep=(
        NARROW,
        "--op-attrs=0:transpose_a:0 --in-shapes=0:24x40,0:1x40,0:24x40*ba+1:56x40*ba",
        "--op-attrs=0:transpose_b:0 --in-shapes=1:40x56",
    ),
)
def matmul_transposed(b: GraphBuilder) -> None:
    b.op("MatMul", b.input((40, 24)), b.input((56, 40)), transpose_a=True, transpose_b=True)


@case("op", sweep=(NARROW,))
def matmul_square_transposed(b: GraphBuilder) -> None:
    """A square operand, whose shape does not give away that it was not transposed."""
    b.op("MatMul", b.input((24, 40)), b.input((40, 40)), transpose_b=True)


@case("op", sweep=(NARROW, "--in-shapes=0:2x3x17x19*abdc,1:2x1x19x23,1:1x3x19x23*badc,0:0x3x17x19+1:1x3x19x23", "--mb=1,5"))
def matmul_batched(b: GraphBuilder) -> None:
    b.op("MatMul", b.input((2, 3, 17, 19)), b.input((1, 3, 19, 23)))


@case("op", sweep=(NARROW,))
def matmul_vectors(b: GraphBuilder) -> None:
    """A row times a matrix: an operand of rank 1."""
    b.op("MatMul", b.input((65,)), b.constant((65, 33)))


@case("op", sweep=(NARROW, "--in-shapes=0:7x1x33x16"))
def matmul_broadcast_batch(b: GraphBuilder) -> None:
    b.op("MatMul", b.input((7, 1, 5, 16)), b.input((3, 16, 9)))


@case("op")
def matmul_bf16_to_f32(b: GraphBuilder) -> None:
    b.op("MatMul", b.input((33, 64), DType.bf16), b.constant((64, 47), DType.bf16), dtype=DType.f32)


@case("op")
def matmul_rows_far_apart(b: GraphBuilder) -> None:
    """Operands that are parts of larger matrices."""
    b.op("MatMul", b.input((33, 48), strides=(100, 1)), b.input((48, 65), strides=(80, 1)))
