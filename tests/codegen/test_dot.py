"""The step of a microkernel, by itself and as machine code for processors that have its instructions, which this one may not."""

from __future__ import annotations

import itertools
import re

import llvmlite.binding as llvm
import numpy as np
import pytest

from benchgraph.codegen import ir
from benchgraph.codegen.kernel import Kernel
from benchgraph.codegen.microkernel import define
from benchgraph.core.isa import ISAS, Isa
from benchgraph.machine.target import Target
from benchgraph.tir.groups import BYTES, SHORTS, DTypes
from tests.support.dot_products import BF16, applied, check_pairs_of_bf16


def test_bytes_of_every_value_are_multiplied_exactly(isa: Isa) -> None:
    """0 to 255 by -128 to 127, the extremes of both in all four places: 16-bit sums of two of these saturate."""
    every = np.random.default_rng(0).permutation(65536)
    size = 4 * isa.lanes
    corners = [(255, -128)] * size + [(255, 127)] * size + [(0, -128), (128, -1)] * (size // 2)
    pairs = [*corners, *((int(n) % 256, int(n) // 256 - 128) for n in every[: 16 * size])]
    for start in range(0, len(pairs), size):
        a, b = (np.array(column) for column in zip(*pairs[start : start + size], strict=True))
        acc = np.arange(isa.lanes, dtype=np.int32) * 1000 - 7
        got = applied(BYTES, isa, a.astype(np.uint8), b.astype(np.int8), acc)
        np.testing.assert_array_equal(got, acc + (a * b).reshape(-1, 4).sum(1))


def test_words_that_hold_bytes_are_multiplied_exactly(isa: Isa) -> None:
    """Of either kind on either side; sums of two products go up to 2 * 255 * 255, which is beyond a word."""
    rng, size = np.random.default_rng(1), 2 * isa.lanes
    corners = [np.full(size, v, np.int16) for v in (255, -128, 127, 0)]
    drawn = [rng.integers(-128, 256, size).astype(np.int16) for _ in range(4)]
    acc = np.arange(isa.lanes, dtype=np.int32) * 1000 - 7
    for a, b in itertools.product((*corners, *drawn), repeat=2):
        got = applied(SHORTS, isa, a, b, acc)
        np.testing.assert_array_equal(got, acc + (a.astype(np.int32) * b).reshape(-1, 2).sum(1))


def test_pairs_of_bf16_are_multiplied_exactly_and_the_odd_one_is_added_first(isa: Isa) -> None:
    """1 + 2**-7 squared needs 15 bits; 2**24 swallows 1 when it is there first."""
    check_pairs_of_bf16(isa)


def loop_of(assembly: str, instruction: str) -> list[str]:
    """The instructions of the basic block that holds the most of this one, up to the jump at its end."""
    blocks = re.split(r"^\.?L\w+:.*$|^\tj\w+\t.*$", assembly, flags=re.MULTILINE)
    return [line.strip() for line in max(blocks, key=lambda b: b.count(instruction)).splitlines() if re.match(r"\t[a-z{]", line)]


def compiled_for(cpu: str, kernel: Kernel, isa: Isa) -> str:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    module = ir.Module()
    define(module, kernel, Target(isa, l1_bytes=48 << 10, l2_bytes=1 << 20, cores=1)).linkage = "external"
    machine = llvm.Target.from_triple("x86_64-unknown-linux-gnu").create_target_machine(cpu=cpu, features="-prefer-256-bit", opt=2)
    parsed = llvm.parse_assembly(str(module))
    parsed.triple, parsed.data_layout = machine.triple, str(machine.target_data)
    passes = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=2))
    passes.getModulePassManager().run(parsed, passes)
    return str(machine.emit_assembly(parsed))


@pytest.mark.parametrize("cpu", ["znver5", "sapphirerapids"])
@pytest.mark.parametrize(("dtypes", "instruction"), [(BF16, "vdpbf16ps"), (BYTES, "vpdpbusd")], ids=["bf16", "u8"])
def test_the_loop_holds_one_instruction_for_each_step_and_its_accumulators(dtypes: DTypes, instruction: str, cpu: str) -> None:
    """Two groups of k: 24 accumulators, each in a register of its own, as the destination; bytes of src are the second operand."""
    group = 32 // dtypes[0].bits
    kernel = Kernel(6, 64, 64 * group, src_row_stride=64 * group, wei_row_stride=64 * group, acc_row_stride=64, dtypes=dtypes)
    loop = loop_of(compiled_for(cpu, kernel, ISAS["avx512_core_bf16"]), instruction)
    steps = [re.findall(r"%zmm\d+", line) for line in loop if line.startswith(instruction)]
    assert len(steps) == 48
    assert len({step[-1] for step in steps}) == 24
    assert all(step[-1] not in step[:-1] for step in steps)
    broadcasts = {line.rsplit(maxsplit=1)[-1] for line in loop if line.startswith(("vpbroadcastd", "vbroadcastss"))}
    assert {step[-3 if dtypes == BF16 else -2] for step in steps} <= broadcasts
    assert len([line for line in loop if "broadcast" in line]) == 12
    assert len([line for line in loop if "%rsp" in line]) == 0
    assert len(loop) <= 48 + 12 + 8 + 4 + 4  # and the loads of wei, the counter and the pointers, addresses of rows


def test_pairs_of_bf16_that_one_vector_is_multiplied_by_are_broadcast_as_they_are_loaded() -> None:
    """A Zen 4 takes 4/3 of the time for a broadcast and a product, whose second operand is no memory."""
    kernel = Kernel(24, 16, 128, src_row_stride=128, wei_row_stride=32, acc_row_stride=16, dtypes=BF16)
    loop = loop_of(compiled_for("znver4", kernel, ISAS["avx512_core_bf16"]), "vdpbf16ps")
    assert [line for line in loop if line.startswith("vdpbf16ps") and "{1to16}" not in line] == []
    assert not any(line.startswith("vbroadcastss") for line in loop)


def test_a_wei_of_two_vectors_runs_on_avx_vnni() -> None:
    kernel = Kernel(6, 16, 256, src_row_stride=256, wei_row_stride=64, acc_row_stride=16, dtypes=BYTES)
    loop = loop_of(compiled_for("alderlake", kernel, ISAS["avx2_vnni"]), "vpdpbusd")
    assert len([line for line in loop if "vpdpbusd" in line and "%ymm" in line]) == 24
    assert not any("%rsp" in line for line in loop)


@pytest.mark.parametrize("k", [64, 3], ids=["whole groups", "a group that k ends in"])
def test_words_are_multiplied_by_two_instructions_a_step_whatever_is_known_of_them(k: int) -> None:
    """Of a group that k ends in, the last byte is known to be zero: no reason for LLVM to multiply halves of vectors."""
    strides = {"src_row_stride": 64, "wei_row_stride": 64, "acc_row_stride": 16}
    kernel = Kernel(4, 16, k, batch=((7, 64, 1024),), **strides, dtypes=BYTES, reads_past_k=k < 4)
    loop = loop_of(compiled_for("znver3", kernel, ISAS["avx2"]), "vpmaddwd")
    assert len([line for line in loop if line.startswith("vpmaddwd")]) == 2 * 4 * 2
    assert not any("%rsp" in line for line in loop)


def test_a_step_of_words_is_a_product_and_a_sum_with_nothing_around_them() -> None:
    """Two groups of k for six rows of two vectors; of these, twelve accumulators, a broadcast and a product, there are sixteen."""
    kernel = Kernel(6, 16, 64, src_row_stride=64, wei_row_stride=32, acc_row_stride=16, dtypes=SHORTS)
    loop = loop_of(compiled_for("znver3", kernel, ISAS["avx2"]), "vpmaddwd")
    counts = {name: len([line for line in loop if line.startswith(name)]) for name in ("vpmaddwd", "vpaddd", "vpbroadcastd")}
    assert counts == {"vpmaddwd": 24, "vpaddd": 24, "vpbroadcastd": 12}
    assert not any("%rsp" in line for line in loop)
    assert len(loop) <= 24 + 24 + 12 + 4 + 4  # and the loads of wei, the counter and the pointers
