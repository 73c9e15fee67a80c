"""What a child process runs at level avx512_core_amx, with amx_trap.c in place of tile registers: python -m tests.amx.emulated LIBRARY.

Prints how many of each instruction the trap has executed; stops with an error where a result is wrong. Where the processor has tile
registers nobody asks for them, so that it is the trap that executes them there too.
"""

from __future__ import annotations

import ctypes
import json
import sys

from benchgraph.machine import target

KINDS = ("ldtilecfg", "tilerelease", "tilezero", "tileloadd", "tileloaddt1", "tilestored", "tdpbf16ps", "tdpbusd", "tdpbsud")
KERNELS = (  # m, n, k, entries of the batch, gap, whether they add to acc
    (32, 32, 64, 1, 0, False),  # a square of whole tiles
    (1, 64, 40, 2, 0, True),  # one row, k cut evenly
    (33, 70, 13, 1, 3, False),  # shapes that change, the remainder of k alone
    (17, 16, 131, 3, 3, True),  # columns of one tile, steps and a remainder
    (16, 100, 65, 1, 0, False),  # four columns by one row of tiles, rows copied to lines
    (16, 64, 520, 1, 0, False),  # wei that L1 cannot keep
)
CASES = (
    ["--graph", "--dt=bf16", "--case=mlp.json"],
    ["--graph", "--case=pattern/quantised_matmul_relu.json"],
    ["--graph", "--dt=bf16", "--case=op/matmul_batched.json"],
    # post-ops in the steps of the next block: more steps than rows, fewer, none but the remainder of k, columns of several ranges, a batch
    ["--matmul", "--dt=bf16", "--bia-dt=bf16", "--attr-post-ops=relu", "33x720:720x64", "64x320:320x64", "40x13:13x80", "70x131:131x96"],
    ["--matmul", "--dt=u8:s8:u8", "--attr-scales=dst:common:0.5", "--attr-post-ops=relu", "64x13:13x72", "33x260:260x64"],
    ["--matmul", "--dt=bf16", "3x40:40x4", "20x32:32x8"],  # fewer columns than a row of a tile has
    ["--conv", "--dt=bf16", "--attr-post-ops=relu", "ic40ih3iw40oc64oh3ow40kh3kw3ph1pw1"],
)


def check_kernels() -> None:
    import numpy as np

    from benchgraph.core.config import override
    from benchgraph.tir.groups import BYTES
    from tests.support.guard_pages import fenced
    from tests.support.microkernels import BF16, dense, operands, run, twin

    with override(isa="avx512_core_amx"):
        for dtypes in (BF16, BYTES):
            for m, n, k, entries, gap, accumulate in KERNELS:
                kernel = dense(m, n, k, entries, gap=gap, accumulate=accumulate, dtypes=dtypes, odd=bool(gap))
                src, wei, acc = map(fenced, operands(kernel))
                want = twin(kernel, src, wei, acc)
                run(kernel, target.current(), src, wei, acc)
                np.testing.assert_array_equal(acc, want, err_msg=kernel.name)


def check_cases() -> None:
    from benchgraph.cli import main

    for case in CASES:
        main(["--isa=avx512_core_amx", "--threads=2", *case], standalone_mode=False)


if __name__ == "__main__":
    trap = ctypes.CDLL(sys.argv[1])
    trap.amx_trap_count.restype = ctypes.c_ulong
    assert trap.amx_trap_install()
    target._may_use_tiles = lambda: True  # without asking; what imports below may look at the processor
    flags = target._cpu_flags() | {"amx_tile", "amx_bf16", "amx_int8"}
    target._cpu_flags = lambda: flags
    check_kernels()
    check_cases()
    print(json.dumps({kind: int(trap.amx_trap_count(i)) for i, kind in enumerate(KINDS)}))
