"""The trap against a numpy model of the manual: every form of the three instructions, and what else an instruction must leave alone."""

from __future__ import annotations

import ctypes
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import product

import llvmlite.binding as llvm
import numpy as np
import pytest
from numpy.typing import NDArray

from benchgraph.runtime.code import Code, load
from tests.bf16.conftest import BF16, KINDS, Cpu
from tests.bf16.rounding import Bits, numbers, to_bf16
from tests.support.guard_pages import fenced

ROUND_TO_ZERO = 0x7F80  # an MXCSR with all exceptions masked, subnormals as they are
DEFAULT_MXCSR = 0x1F80
DST, SRC1, MASK = 21, 7, 3  # registers
SMALLEST, QUIET, DEFAULT_NAN = 2.0**-126, 0x400000, 0xFFC00000
READS_ALL = "vcvtne2ps2bf16"  # faults where an element that its mask leaves out cannot be read; the others do not


@dataclass(frozen=True)
class Operand:
    """src2. setup: instructions that make its address of rsi, the address of memory. at: how many bytes behind rsi it begins.

    register: which vector register it is, if it is one.
    """

    text: str
    setup: str = ""
    at: int = 0
    register: int | None = None


OPERANDS = {
    "register": Operand("{w}30", register=30),
    "low register": Operand("{w}2", register=2),
    "base": Operand("[rsi]"),
    "disp8": Operand("[rsi + 128]", at=128),
    "disp8 down": Operand("[rsi - 64]", "add rsi, 192", at=128),
    "disp32": Operand("[rsi + 100]", at=100),
    "r12": Operand("[r12]", "mov r12, rsi"),
    "r13": Operand("[r13]", "mov r13, rsi"),
    "rbp": Operand("[rbp + 64]", "mov rbp, rsi", at=64),
    "index": Operand("[rsi + 4*rax]", "mov rax, 16", at=64),
    "high index": Operand("[r9 + 8*r14 + 64]", "mov r9, rsi\nmov r14, -4", at=32),
    "index r12": Operand("[rbx + 2*r12]", "mov rbx, rsi\nmov r12, 32", at=64),
    "no base": Operand("[8*rdx + 32]", "mov rdx, rsi\nshr rdx, 3", at=32),
    "stack": Operand("[rsp + 64]", "vmovups zmm0, [rsi]\nvmovups [rsp + 64], zmm0"),
    "rip": Operand("[rip + constants]"),
}
BROADCASTS = {f"{name} broadcast": o for name, o in OPERANDS.items() if name in ("base", "disp8", "disp32", "high index", "rip")}
MASKS = {"": "", "merging": f" {{k{MASK}}}", "zeroing": f" {{k{MASK}}} {{z}}"}
WIDTHS = {128: ("xmm", "xmmword"), 256: ("ymm", "ymmword"), 512: ("zmm", "zmmword")}


@dataclass(frozen=True)
class Form:
    kind: str
    bits: int
    operand: Operand
    is_broadcast: bool
    mask: str

    def text(self) -> str:
        """In Intel's syntax."""
        (register, memory), is_halved = WIDTHS[self.bits], self.kind == "vcvtneps2bf16"
        dst = WIDTHS[max(self.bits // 2, 128)][0] if is_halved else register
        src2 = self.operand.text.format(w=register)
        if self.is_broadcast:
            src2 = f"dword ptr {src2}{{1to{self.bits // 32}}}"
        elif self.operand.register is None:
            src2 = f"{memory} ptr {src2}"
        return f"{self.kind} {dst}{DST}{MASKS[self.mask]}, " + ("" if is_halved else f"{register}{SRC1}, ") + src2


def forms() -> Iterator[tuple[str, Form]]:
    for kind, bits, mask in product(KINDS, (128, 256, 512), MASKS):
        for is_broadcast, operands in ((False, OPERANDS), (True, BROADCASTS)):
            for name, operand in operands.items():
                yield f"{kind} {bits} {name} {mask}", Form(kind, bits, operand, is_broadcast, mask)


FORMS = dict(forms())
SAVED = ("rbx", "rbp", "r12", "r13", "r14", "r15")


@dataclass
class State:
    """What an instruction may change: zmm0 to 31, k0 to 7, MXCSR; and constant memory."""

    vectors: Bits  # 32 x 16
    masks: NDArray[np.uint64]
    mxcsr: int = ROUND_TO_ZERO

    def run(self, entry: int, memory: int) -> State:
        block = np.zeros(32 * 16 + 16 + 2, np.uint32)
        block[:512], block[512:528], block[528:] = self.vectors.ravel(), self.masks.view(np.uint32), (self.mxcsr, DEFAULT_MXCSR)
        ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(entry)(block.ctypes.data, memory)
        return State(block[:512].reshape(32, 16).copy(), block[512:528].copy().view(np.uint64), int(block[528]))


def assembled(bodies: dict[str, tuple[str, str]], constants: Bits) -> Code:
    """Functions void (state, memory): load the state, run the setup and then the body, store the state."""
    lines = [".intel_syntax noprefix", ".text"]
    for verb in ("load", "store"):
        registers = [(f"zmm{i}", f"[rdi + {64 * i}]", "vmovups") for i in range(32)]
        registers += [(f"k{i}", f"[rdi + {2048 + 8 * i}]", "kmovq") for i in range(8)]
        lines.append(f"{verb}_state:")
        lines += [f"{move} {a}, {b}" if verb == "load" else f"{move} {b}, {a}" for a, b, move in registers]
        lines += ["ldmxcsr [rdi + 2112]"] if verb == "load" else ["stmxcsr [rdi + 2112]", "ldmxcsr [rdi + 2116]"]
        lines.append("ret")
    for name, (setup, body) in bodies.items():
        lines += [f".globl {name}", f"{name}:", *(f"push {r}" for r in SAVED), "sub rsp, 192", *setup.splitlines()]
        lines += ["call load_state", *body.splitlines(), "call store_state", "add rsp, 192"]
        lines += [*(f"pop {r}" for r in reversed(SAVED)), "vzeroupper", "ret"]
    lines += [".p2align 6", "constants:", *(f".long {word}" for word in constants), ".att_syntax"]
    llvm.initialize_native_asmparser()
    return load("\n".join(f'module asm "{line}"' for line in lines), BF16, {})


# ---- the model


def rounded(total: NDArray[np.float64], error: NDArray[np.float64]) -> NDArray[np.float32]:
    """total + error as f32, nearest even in one rounding, subnormal results as zeros of their sign."""
    bits = total.view(np.int64)
    towards = np.where(np.signbit(error) == np.signbit(total), 1, -1)
    odd = np.where((error != 0) & (bits % 2 == 0), bits + towards, bits).view(np.float64)  # rounding that again is rounding once
    tiny = np.abs(odd) < 2.0**-100
    single = np.where(tiny, odd * 2.0**64, odd).astype(np.float32)  # as if exponents had no end
    flushed = tiny & (np.abs(single) < np.float32(SMALLEST * 2.0**64))
    return np.where(flushed, np.copysign(np.float32(0), single), np.where(tiny, single * np.float32(2.0**-64), single)).astype(np.float32)


def multiply_add(a: Bits, b: Bits, acc: Bits) -> Bits:
    """acc + a * b; a and b have the 8 digits of bf16, so that their product is exact in f64."""
    nans = [np.isnan(x.view(np.float32)) for x in (a, b, acc)]
    x, y, z = (
        np.where((bits & 0x7F800000) == 0, bits & 0x80000000, bits).astype(np.uint32).view(np.float32).astype(np.float64)
        for bits in (a, b, acc)
    )
    p = x * y
    total = p + z
    back = total - p
    error = (p - (total - back)) + (z - back)  # of a sum in f64: Knuth
    result = rounded(total, np.where(np.isfinite(total), error, 0.0)).view(np.uint32)
    result = np.where(np.isnan(total), DEFAULT_NAN, result)
    for nan, bits in reversed(list(zip(nans, (a, b, acc), strict=True))):
        result = np.where(nan, bits | QUIET, result)
    return result.astype(np.uint32)


def dot(a: Bits, b: Bits, acc: Bits) -> Bits:
    """The odd products first."""
    acc = multiply_add(a & 0xFFFF0000, b & 0xFFFF0000, acc)
    return multiply_add(a << 16, b << 16, acc)


def expected(form: Form, before: State, memory: Bits) -> Bits:
    """The destination, 16 dwords."""
    lanes = form.bits // 32
    dst, src1 = before.vectors[DST], before.vectors[SRC1][:lanes]
    if form.operand.register is not None:
        src2 = before.vectors[form.operand.register][:lanes]
    else:
        src2 = memory[: 1 if form.is_broadcast else lanes]
        src2 = np.broadcast_to(src2, lanes)
    if form.kind == "vdpbf16ps":
        result, old = dot(src1, src2, dst[:lanes]), dst.copy()
    else:
        parts = [src2] if form.kind == "vcvtneps2bf16" else [src2, src1]
        result, old = np.concatenate([to_bf16(part) for part in parts]), dst.view(np.uint16)
    chosen = np.array([int(before.masks[MASK]) >> i & 1 for i in range(result.size)], bool)
    if form.mask:
        result = np.where(chosen, result, 0 if form.mask == "zeroing" else old[: result.size]).astype(result.dtype)
    whole = np.zeros(64 // result.itemsize, result.dtype)
    whole[: result.size] = result
    return whole.view(np.uint32)


# ---- data


def drawn(rng: np.random.Generator) -> State:
    return State(numbers(rng, 512).reshape(32, 16), rng.integers(0, 1 << 64, 8, np.uint64))


@pytest.fixture(scope="module")
def code(trap: ctypes.CDLL | None) -> tuple[Code, Bits]:
    constants = numbers(np.random.default_rng(9), 16)
    named = {f"form{i}": (f.operand.setup, f.text()) for i, f in enumerate(FORMS.values())}
    return assembled(named, constants), constants


@pytest.mark.parametrize("kind", KINDS)
def test_every_form_follows_the_manual_and_changes_only_its_destination(kind: str, cpu: Cpu, code: tuple[Code, Bits]) -> None:
    rng, (functions, constants) = np.random.default_rng(KINDS.index(kind)), code
    memory = np.zeros(128, np.uint32)
    start = -memory.ctypes.data % 64 // 4
    wrong = []
    for i, (name, form) in enumerate(FORMS.items()):
        if form.kind != kind:
            continue
        memory[:] = numbers(rng, 128)
        before = drawn(rng)
        if "stack" in name:
            before.vectors[0] = memory[start : start + 16]
        with cpu.executes(kind):
            after = before.run(functions.address(f"form{i}"), memory[start:].ctypes.data)
        operand = constants if "rip" in name else memory[start:].view(np.uint8)[form.operand.at :][:64].view(np.uint32)
        with np.errstate(all="ignore"):
            before.vectors[DST] = expected(form, before, operand)
        same = np.array_equal(after.vectors, before.vectors) and np.array_equal(after.masks, before.masks)
        if not same or after.mxcsr != before.mxcsr:
            wrong.append(name)
    assert not wrong


def test_thousands_of_sums_are_the_manuals_to_the_bit(cpu: Cpu, code: tuple[Code, Bits]) -> None:
    """Terms of like size, where elsewhere one product is mostly all of the sum."""
    rng, name = np.random.default_rng(5), "vdpbf16ps 512 register "
    entry = code[0].address(f"form{list(FORMS).index(name)}")
    for scale in (1.0, 2.0**-63, 2.0**63):  # products near 1, the smallest normal number and the largest
        for _ in range(30):
            before = drawn(rng)
            for register in (SRC1, 30):
                pairs = (rng.standard_normal(32) * scale).astype(np.float32).view(np.uint32) >> 16
                before.vectors[register] = pairs[:16] | pairs[16:] << 16
            before.vectors[DST] = (rng.standard_normal(16) * scale * scale).astype(np.float32).view(np.uint32)
            after = before.run(entry, 0)
            with np.errstate(all="ignore"):
                np.testing.assert_array_equal(after.vectors[DST], expected(FORMS[name], before, np.zeros(16, np.uint32)))


@pytest.mark.parametrize("bits", WIDTHS)
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != READS_ALL])
def test_masked_memory_is_not_accessed(kind: str, bits: int, cpu: Cpu, code: tuple[Code, Bits]) -> None:
    """Three elements lie before the end of a page, and the mask has them alone."""
    name = f"{kind} {bits} base zeroing"
    memory = fenced(numbers(np.random.default_rng(1), 3))
    before = drawn(np.random.default_rng(2))
    before.masks[MASK] = 0b111
    padded = np.concatenate([memory, np.zeros(13, np.uint32)])
    with cpu.executes(kind):
        after = before.run(code[0].address(f"form{list(FORMS).index(name)}"), memory.ctypes.data)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(after.vectors[DST], expected(FORMS[name], before, padded))


def test_registers_in_their_initial_state_are_zeros_before_and_all_of_them_after(cpu: Cpu) -> None:
    """The processor does not save what it knows to be zero; whoever writes one of 16 registers says that all are there now."""
    functions = assembled({"run": ("", "vzeroall\nvcvtne2ps2bf16 zmm1, zmm2, [rsi]")}, np.zeros(1, np.uint32))
    memory = np.arange(1, 17, dtype=np.float32)
    before = drawn(np.random.default_rng(3))
    with cpu.executes("vcvtne2ps2bf16"):
        after = before.run(functions.address("run"), memory.ctypes.data)
    before.vectors[:16] = 0
    before.vectors[1, :8] = to_bf16(memory.view(np.uint32)).view(np.uint32)
    np.testing.assert_array_equal(after.vectors, before.vectors)


def test_threads_trap_concurrently(cpu: Cpu, code: tuple[Code, Bits]) -> None:
    name = "vdpbf16ps 512 disp8 merging"
    entry, turns = code[0].address(f"form{list(FORMS).index(name)}"), 100
    counted = cpu.executed()["vdpbf16ps"]

    def work(seed: int) -> bool:
        rng = np.random.default_rng(seed)
        memory, ok = numbers(rng, 64), True
        for _ in range(turns):
            before = drawn(rng)
            with np.errstate(all="ignore"):
                want = expected(FORMS[name], before, memory[32:])
            ok &= np.array_equal(before.run(entry, memory.ctypes.data).vectors[DST], want)
        return ok

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(4)))
    assert cpu.trap is None or cpu.executed()["vdpbf16ps"] == counted + 4 * turns


DYING = """
import ctypes, mmap, sys
memory = mmap.mmap(-1, 4096, prot=7)
memory.write(bytes.fromhex(sys.argv[2]) + b"\\xc3")
assert not sys.argv[1] or ctypes.CDLL(sys.argv[1]).bf16_trap_install()
ctypes.CFUNCTYPE(None)(ctypes.addressof(ctypes.c_char.from_buffer(memory)))()
"""
NO_ELEMENT_AT_0 = "31c0c5e447db"  # xor eax, eax; kxorw k3, k3, k3
MASKED_OUT = {  # X dst1 {k3} {z}, [zmm2,] [rax]
    "vdpbf16ps": "62f26ecb5208",
    "vcvtneps2bf16": "62f27ecb7208",
    "vcvtne2ps2bf16": "62f26fcb7208",
}
VDPBF16PS = "62f26e4852cb"  # zmm1, zmm2, zmm3
OTHERS = {
    "ud2": "0f0b",
    "another opcode": "62f26e4853c9",  # vpdpwssds' place with the prefix of vdpbf16ps
    "W1": "62f2ee4852cb",
    "a fourth vector length": "62f26e6852cb",
    "broadcast of a register": "62f26e5852cb",
    "a second source of vcvtneps2bf16": "62f26e4872cb",
}


@pytest.mark.parametrize("kind", KINDS)
def test_an_unmapped_address_faults_with_an_empty_mask_where_the_manual_says_so(kind: str, trap: ctypes.CDLL | None) -> None:
    body, handler = NO_ELEMENT_AT_0 + MASKED_OUT[kind], "" if trap is None else trap._name
    done = subprocess.run([sys.executable, "-c", DYING, handler, body])
    assert done.returncode == (-signal.SIGSEGV if kind == READS_ALL else 0)


@pytest.mark.parametrize("code", OTHERS.values(), ids=OTHERS)
def test_other_illegal_instructions_reach_the_previous_handler(code: str, trap: ctypes.CDLL | None) -> None:
    """Python's faulthandler names the place, and the process dies."""
    if trap is None:
        pytest.skip("this CPU has AVX512_BF16: nothing is trapped")
    done = subprocess.run([sys.executable, "-X", "faulthandler", "-c", DYING, trap._name, code], capture_output=True, text=True)
    assert done.returncode == -signal.SIGILL
    assert "Illegal instruction" in done.stderr


def test_the_legal_encoding_is_emulated(trap: ctypes.CDLL | None) -> None:
    """The others differ from it in what makes them illegal."""
    if trap is None:
        pytest.skip("this CPU has AVX512_BF16: nothing is trapped")
    assert subprocess.run([sys.executable, "-c", DYING, trap._name, VDPBF16PS]).returncode == 0


def test_sent_signals_reach_the_previous_handler(trap: ctypes.CDLL | None) -> None:
    if trap is None:
        pytest.skip("this CPU has AVX512_BF16: nothing is trapped")
    text = f"import ctypes, os; ctypes.CDLL({trap._name!r}).bf16_trap_install(); os.kill(os.getpid(), {int(signal.SIGILL)})"
    assert subprocess.run([sys.executable, "-c", text]).returncode == -signal.SIGILL
