"""Tensor IR to LLVM IR.

emit.py         functions, statements, parallel loops     expressions.py  expressions
calls.py        kernels and packing, modules of their own
frame.py        one LLVM function: variables and memory   convert.py      data types and casts
microkernel.py  the batch-reduce GEMM, on vectors         vmath.py        exp, log, tanh, erf, rounding
amx.py          the same on tile registers                tile_plan.py    how these are cut into tiles
reduction.py    what both of these share
pack.py         weights brought into panels               turn.py         channels first to channels last
ir/             LLVM IR as text: types, values, the builder
invariant.py    what a loop reads and divides every time
intrinsics.py   vectors, intrinsics by name; ISA levels
"""
