/* Executes the instructions of AVX512_BF16 on processors with AVX-512 but without them, where they raise SIGILL.
 *
 *     VDPBF16PS       EVEX.{128,256,512}.F3.0F38.W0 52 /r     dst{k1}{z}, src1, src2/m/m32bcst
 *     VCVTNEPS2BF16   EVEX.{128,256,512}.F3.0F38.W0 72 /r     dst{k1}{z}, src2/m/m32bcst
 *     VCVTNE2PS2BF16  EVEX.{128,256,512}.F2.0F38.W0 72 /r     dst{k1}{z}, src1, src2/m/m32bcst
 *
 * The handler decodes the instruction, reads its operands from the state that the kernel saved (general registers in the ucontext, vector
 * and mask registers in the XSAVE area), computes what Intel's manual says, writes the destination there, and steps over it. It keeps
 * nothing between two traps but the counters, so threads do not disturb each other. What it does not know goes to whom SIGILL belonged before.
 */

#define _GNU_SOURCE
#include <cpuid.h>
#include <immintrin.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <ucontext.h>

enum { VDPBF16PS, VCVTNEPS2BF16, VCVTNE2PS2BF16, KINDS };

typedef union { uint8_t byte[64]; uint16_t word[32]; uint32_t dword[16]; } Vector;

typedef struct {
    int kind;
    int dst, src1, src2;    /* vector registers 0 to 31; src2 -1: memory at `address` */
    const uint8_t *address;
    int bytes;              /* vector length: 16, 32 or 64 */
    int mask;               /* opmask register, 0: none */
    int is_broadcast, is_zeroing;
    int length;             /* of the instruction, in bytes */
} Instruction;

static struct sigaction previous;
static atomic_ulong executed[KINDS];

/* ---- the saved state: standard form of the XSAVE area, component i at CPUID(0xD, i).ebx */

enum { SSE = 1, AVX = 2, OPMASK = 5, ZMM_HI256 = 6, HI16_ZMM = 7, COMPONENTS };
enum { XMM0 = 160, SW_RESERVED = 464, XSTATE_BV = 512 }; /* offsets in the legacy area and of the header behind it */
static uint32_t offset[COMPONENTS], size[COMPONENTS];

static int find_components(void) {
    offset[SSE] = XMM0, size[SSE] = 256;
    for (unsigned i = AVX; i < COMPONENTS; i++) {
        unsigned eax, ebx, ecx, edx;
        if (!__get_cpuid_count(0xD, i, &eax, &ebx, &ecx, &edx))
            return 0;
        offset[i] = ebx, size[i] = eax;
    }
    return size[AVX] && size[OPMASK] && size[ZMM_HI256] && size[HI16_ZMM];
}

static uint64_t *in_use(uint8_t *xsave) { return (uint64_t *)(xsave + XSTATE_BV); }

/* Components in their initial state are all zeros, whatever the area holds. Before one is written it becomes so there as well. */
static void read_state(uint8_t *xsave, int component, int at, void *to, int bytes) {
    if (*in_use(xsave) >> component & 1)
        memcpy(to, xsave + offset[component] + at, bytes);
    else
        memset(to, 0, bytes);
}

static void write_state(uint8_t *xsave, int component, int at, const void *from, int bytes) {
    if (!(*in_use(xsave) >> component & 1))
        memset(xsave + offset[component], 0, size[component]);
    *in_use(xsave) |= 1ull << component;
    memcpy(xsave + offset[component] + at, from, bytes);
}

static Vector read_vector(uint8_t *xsave, int number) {
    Vector v;
    if (number >= 16) {
        read_state(xsave, HI16_ZMM, 64 * (number - 16), v.byte, 64);
    } else {
        read_state(xsave, SSE, 16 * number, v.byte, 16);
        read_state(xsave, AVX, 16 * number, v.byte + 16, 16);
        read_state(xsave, ZMM_HI256, 32 * number, v.byte + 32, 32);
    }
    return v;
}

static void write_vector(uint8_t *xsave, int number, const Vector *v) {
    if (number >= 16) {
        write_state(xsave, HI16_ZMM, 64 * (number - 16), v->byte, 64);
    } else {
        write_state(xsave, SSE, 16 * number, v->byte, 16);
        write_state(xsave, AVX, 16 * number, v->byte + 16, 16);
        write_state(xsave, ZMM_HI256, 32 * number, v->byte + 32, 32);
    }
}

/* ---- decoding: 62 P0 P1 P2 opcode ModRM [SIB] [disp8*N | disp32] */

static uint64_t general(const greg_t *regs, int number) {
    static const int place[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                                  REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
    return regs[place[number]];
}

static int32_t displacement(const uint8_t *at) {
    int32_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

/* The effective address; *next, behind ModRM, moves behind SIB and displacement. x, b: the bits above index and base. scale: the N of disp8*N. */
static const uint8_t *effective(const greg_t *regs, uint8_t modrm, int x, int b, int scale, const uint8_t **next) {
    int mod = modrm >> 6, rm = modrm & 7, base = rm | b << 3;
    uint64_t address = 0;
    if (rm == 4) {
        uint8_t sib = *(*next)++;
        int index = (sib >> 3 & 7) | x << 3;
        base = (sib & 7) | b << 3;
        if (index != 4)
            address += general(regs, index) << (sib >> 6);
    }
    if (mod == 0 && rm == 5) { /* nothing follows the displacement in these instructions */
        *next += 4;
        return *next + displacement(*next - 4);
    }
    if (mod == 2 || (mod == 0 && (base & 7) == 5)) { /* disp32, without a base if mod is 0 */
        address += displacement(*next);
        *next += 4;
    } else if (mod == 1) {
        address += (int8_t) * (*next)++ * scale;
    }
    if (mod != 0 || (base & 7) != 5)
        address += general(regs, base);
    return (const uint8_t *)address;
}

static int decode(const greg_t *regs, Instruction *found) {
    const uint8_t *start = (const uint8_t *)regs[REG_RIP], *next = start;
    if (*next++ != 0x62)
        return 0; /* nor is there a prefix that the compiler writes before it */
    uint8_t p0 = *next++, p1 = *next++, p2 = *next++;
    int r = !(p0 & 0x80), x = !(p0 & 0x40), b = !(p0 & 0x20), r_high = !(p0 & 0x10), map = p0 & 0xF;
    int w = p1 >> 7, vvvv = (~p1 >> 3) & 0xF, is_evex = p1 & 4, prefix = p1 & 3;
    int z = p2 >> 7, length = p2 >> 5 & 3, broadcast = p2 >> 4 & 1, v_high = !(p2 & 8), aaa = p2 & 7;
    enum { F38 = 2, F3 = 2, F2 = 3 };
    if (map != F38 || w || !is_evex || length == 3)
        return 0;
    uint8_t opcode = *next++, modrm = *next++;
    if (opcode == 0x52 && prefix == F3)
        found->kind = VDPBF16PS;
    else if (opcode == 0x72 && prefix == F3 && !vvvv && !v_high)
        found->kind = VCVTNEPS2BF16;
    else if (opcode == 0x72 && prefix == F2)
        found->kind = VCVTNE2PS2BF16;
    else
        return 0;
    found->bytes = 16 << length;
    found->dst = (modrm >> 3 & 7) | r << 3 | r_high << 4;
    found->src1 = vvvv | v_high << 4;
    found->mask = aaa;
    found->is_zeroing = z, found->is_broadcast = broadcast;
    if (modrm >> 6 == 3) {
        if (broadcast)
            return 0;
        found->src2 = (modrm & 7) | b << 3 | x << 4;
    } else {
        found->src2 = -1;
        found->address = effective(regs, modrm, x, b, broadcast ? 4 : found->bytes, &next);
    }
    found->length = (int)(next - start);
    return 1;
}

/* ---- what the instructions compute */

static int is_nan(uint32_t x) { return (x & 0x7FFFFFFF) > 0x7F800000; }

/* acc + a * b, where MXCSR says: denormals are zero, results are flushed, nearest even. The first NaN of a, b and acc is the result. */
static uint32_t multiply_add(uint32_t a, uint32_t b, uint32_t acc) {
    if (is_nan(a) || is_nan(b) || is_nan(acc))
        return (is_nan(a) ? a : is_nan(b) ? b : acc) | 0x400000;
    __m128 x = _mm_castsi128_ps(_mm_cvtsi32_si128((int)a)), y = _mm_castsi128_ps(_mm_cvtsi32_si128((int)b));
    return (uint32_t)_mm_cvtsi128_si32(_mm_castps_si128(_mm_fmadd_ss(x, y, _mm_castsi128_ps(_mm_cvtsi32_si128((int)acc)))));
}

static uint32_t dot(uint32_t a, uint32_t b, uint32_t acc) {
    acc = multiply_add(a & 0xFFFF0000, b & 0xFFFF0000, acc);
    return multiply_add(a << 16, b << 16, acc);
}

static uint16_t to_bf16(uint32_t x) {
    if (!(x & 0x7F800000))
        return x >> 16 & 0x8000; /* zero or denormal */
    if (is_nan(x))
        return x >> 16 | 0x40;
    return (x + 0x7FFF + (x >> 16 & 1)) >> 16; /* infinity stays what it is */
}

/* dst as it is afterwards. Elements of src2 that the mask leaves out may lie on pages that are not there: but for VCVTNE2PS2BF16, which faults
 * then (exceptions of type E4NF), they are not read. */
static __attribute__((noinline)) void compute(const Instruction *i, uint64_t mask, const Vector *src1, Vector src2, Vector *dst) {
    int words = i->kind == VDPBF16PS ? 0 : i->bytes / (i->kind == VCVTNEPS2BF16 ? 4 : 2), dwords = i->bytes / 4;
    const Vector before = *dst;
    memset(dst, 0, sizeof *dst);
    const uint64_t read = i->kind == VCVTNE2PS2BF16 ? ~0ull : mask;
    if (i->src2 < 0)
        for (int at = 0; at < dwords; at++)
            if (read >> at & 1)
                memcpy(&src2.dword[at], i->address + (i->is_broadcast ? 0 : 4 * at), 4);
    for (int at = 0; at < (words ? words : dwords); at++) {
        int is_kept = !(mask >> at & 1);
        if (words && is_kept)
            dst->word[at] = i->is_zeroing ? 0 : before.word[at];
        else if (words)
            dst->word[at] = to_bf16(at < dwords ? src2.dword[at] : src1->dword[at - dwords]);
        else if (is_kept)
            dst->dword[at] = i->is_zeroing ? 0 : before.dword[at];
        else
            dst->dword[at] = dot(src1->dword[at], src2.dword[at], before.dword[at]);
    }
}

static void handle(int signal, siginfo_t *info, void *context) {
    mcontext_t *machine = &((ucontext_t *)context)->uc_mcontext;
    uint8_t *xsave = (uint8_t *)machine->fpregs;
    const struct _fpx_sw_bytes *saved = (const struct _fpx_sw_bytes *)(xsave + SW_RESERVED);
    Instruction i = {0};
    int is_fault = info->si_code > 0, has_avx512 = saved->magic1 == FP_XSTATE_MAGIC1 && saved->xstate_bv >> HI16_ZMM & 1;
    if (!is_fault || !has_avx512 || !decode(machine->gregs, &i)) {
        sigaction(SIGILL, &previous, NULL); /* a fault comes again as soon as we return, and then goes there */
        if (!is_fault)
            raise(signal);
        return;
    }
    uint64_t mask = ~0ull;
    if (i.mask)
        read_state(xsave, OPMASK, 8 * i.mask, &mask, 8);
    Vector src1 = read_vector(xsave, i.src1), src2 = read_vector(xsave, i.src2 < 0 ? 0 : i.src2), dst = read_vector(xsave, i.dst);
    _mm_setcsr(0x9FC0); /* flush to zero, denormals are zero, nearest even, no exceptions; returning restores the thread's own */
    compute(&i, mask, &src1, src2, &dst);
    write_vector(xsave, i.dst, &dst);
    machine->gregs[REG_RIP] += i.length;
    atomic_fetch_add(&executed[i.kind], 1);
}

/* ---- for the tests */

int bf16_trap_install(void) {
    struct sigaction action = {.sa_sigaction = handle, .sa_flags = SA_SIGINFO};
    return find_components() && !sigaction(SIGILL, &action, &previous);
}

void bf16_trap_remove(void) { sigaction(SIGILL, &previous, NULL); }
unsigned long bf16_trap_count(int kind) { return atomic_load(&executed[kind]); }
