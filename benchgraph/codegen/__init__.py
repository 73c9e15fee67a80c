"""Tensor IR to LLVM IR.

ir/                     LLVM IR as text
intrinsics.py           constants, vectors, shuffles, intrinsics by name; target machines of ISA levels
emit.py                 functions, statements, parallel loops
clock_readings.py       when each statement of a function runs, for profiles
function_builder.py     one LLVM function: its variables, memory, loads and stores
expressions.py          expressions
loop_invariants.py      loads and values that are computed before a loop
convert.py              data types and casts
vmath.py                exp, log, tanh, erf, rounding
philox.py               random numbers
building_blocks.py      loops, partial vectors and prefetches for kernels
calls.py                the functions that products and packings call, in modules of their own
kernel.py               the description of a microkernel
microkernel.py          the batch-reduce GEMM, on vector registers
microkernel_base.py     what the microkernels on vector registers and on tile registers share
register_tiles.py       how the microkernel on vector registers splits rows and columns into register tiles
dot.py                  the innermost step of that microkernel: dot products of groups along k
post_ops.py             the post-ops of microkernels
amx.py                  the batch-reduce GEMM, on tile registers (AMX)
tile_plan.py            how the microkernel on tile registers splits rows, columns and k into tiles
tile_registers.py       instructions and shapes of tile registers
pack.py                 packs a matrix in B panels, in groups along k
transpose.py            transposing copies
shuffles.py             interleaving and transposition of vectors
"""
