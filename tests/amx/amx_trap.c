/* Executes the instructions of AMX where they raise SIGILL: on processors without tile registers, and in processes that may not use them.
 *
 *     LDTILECFG    VEX.128.NP.0F38.W0 49 /0 m512          TDPBF16PS    VEX.128.F3.0F38.W0 5C 11:dst:a, b in vvvv
 *     TILERELEASE  VEX.128.NP.0F38.W0 49 C0               TDPBUSD      VEX.128.66.0F38.W0 5E, the same
 *     TILEZERO     VEX.128.F2.0F38.W0 49 11:tile:000      TDPBSUD      VEX.128.F3.0F38.W0 5E, the same
 *     TILELOADD    VEX.128.F2.0F38.W0 4B /r sibmem
 *     TILELOADDT1  VEX.128.66.0F38.W0 4B /r sibmem
 *     TILESTORED   VEX.128.F3.0F38.W0 4B /r sibmem
 *
 * The handler decodes the instruction, does what Intel's manual says with tiles of its own, one set for each thread, and steps over it. Where
 * the manual has #UD (shapes that do not fit each other, tiles without a shape), and for all else, SIGILL goes to whom it belonged before.
 *
 * A process that may not use tiles executes LDTILECFG and TILERELEASE all the same: then the shapes are in the state that the kernel saved.
 */

#define _GNU_SOURCE
#include <cpuid.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

enum { LDTILECFG, TILERELEASE, TILEZERO, TILELOADD, TILELOADDT1, TILESTORED, TDPBF16PS, TDPBUSD, TDPBSUD, KINDS };
enum { TILES = 8, ROWS = 16, ROW_BYTES = 64, THREADS = 64 };

typedef union { uint8_t byte[ROW_BYTES]; uint16_t word[ROW_BYTES / 2]; uint32_t dword[ROW_BYTES / 4]; float single[ROW_BYTES / 4]; } Row;

typedef struct {
    atomic_int owner;   /* a thread's number, 0: nobody's yet */
    int is_configured;
    int rows[TILES], bytes[TILES];
    Row tile[TILES][ROWS];
} State;

typedef struct {
    int kind;
    int reg, rm, vvvv;
    uint8_t *address;   /* of memory operands: where row 0 is */
    int64_t stride;
    int length;         /* of the instruction, in bytes */
} Instruction;

static State states[THREADS];
static struct sigaction previous;
static atomic_ulong executed[KINDS];

static State *own_state(void) {
    int me = (int)syscall(SYS_gettid);
    for (int i = 0; i < THREADS; i++) {
        int nobody = 0;
        if (atomic_load(&states[i].owner) == me || atomic_compare_exchange_strong(&states[i].owner, &nobody, me))
            return &states[i];
    }
    return 0;
}

/* ---- decoding */

static int64_t general(ucontext_t *context, int number) {
    static const int at[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                               REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
    return context->uc_mcontext.gregs[at[number]];
}

static int kind_of(int opcode, int prefix, int is_register, int modrm) {
    enum { NONE, P66, PF3, PF2 };
    switch (opcode << 8 | prefix) {
    case 0x49 << 8 | NONE: return !is_register ? (modrm >> 3 & 7 ? -1 : LDTILECFG) : modrm == 0xC0 ? TILERELEASE : -1;
    case 0x49 << 8 | PF2: return is_register && !(modrm & 7) ? TILEZERO : -1;
    case 0x4B << 8 | PF2: return is_register ? -1 : TILELOADD;
    case 0x4B << 8 | P66: return is_register ? -1 : TILELOADDT1;
    case 0x4B << 8 | PF3: return is_register ? -1 : TILESTORED;
    case 0x5C << 8 | PF3: return is_register ? TDPBF16PS : -1;
    case 0x5E << 8 | P66: return is_register ? TDPBUSD : -1;
    case 0x5E << 8 | PF3: return is_register ? TDPBSUD : -1;
    }
    return -1;
}

static int decode(ucontext_t *context, Instruction *i) {
    const uint8_t *at = (const uint8_t *)context->uc_mcontext.gregs[REG_RIP];
    if (at[0] != 0xC4 || (at[1] & 0x1F) != 2 || at[2] & 0x84)
        return 0;
    int has_x = !(at[1] & 0x40), has_b = !(at[1] & 0x20), modrm = at[4], mod = modrm >> 6;
    i->vvvv = ~at[2] >> 3 & 15, i->reg = modrm >> 3 & 7, i->rm = modrm & 7, i->length = 5, i->stride = 0;
    i->kind = kind_of(at[3], at[2] & 3, mod == 3, modrm);
    if (i->kind < 0 || mod == 3)
        return i->kind >= 0;
    int64_t address = 0;
    int has_sib = i->rm == 4, base = i->rm | has_b << 3, has_base = 1;
    if (i->kind != LDTILECFG && !has_sib)
        return 0;
    if (has_sib) {
        int sib = at[i->length++], index = (sib >> 3 & 7) | has_x << 3;
        base = (sib & 7) | has_b << 3;
        if (index != 4)
            i->stride = general(context, index) << (sib >> 6);
        has_base = (sib & 7) != 5 || mod;
    }
    int is_relative = !has_sib && i->rm == 5 && !mod;
    if (mod == 1) {
        address += (int8_t)at[i->length++];
    } else if (mod == 2 || is_relative || !has_base) {
        int32_t displacement;
        memcpy(&displacement, at + i->length, 4);
        address += displacement, i->length += 4;
    }
    address += is_relative ? (int64_t)at + i->length : has_base ? general(context, base) : 0;
    if (i->kind == LDTILECFG)
        address += i->stride;
    i->address = (uint8_t *)address;
    return 1;
}

/* ---- execution; 0 where the manual has #UD */

static int shapes_of(State *s, const uint8_t *memory) {
    if (memory[0] != 1 || memory[1])
        return 0;
    for (int t = 0; t < TILES; t++) {
        s->bytes[t] = memory[16 + 2 * t] | memory[17 + 2 * t] << 8, s->rows[t] = memory[48 + t];
        if (s->bytes[t] > ROW_BYTES || s->rows[t] > ROWS || !s->bytes[t] != !s->rows[t])
            return 0;
    }
    return 1;
}

static int configure(State *s, const uint8_t *memory) {
    memset(s->tile, 0, sizeof s->tile);
    return s->is_configured = shapes_of(s, memory);
}

static int has_shape(const State *s, int t) { return s->is_configured && t < TILES && s->rows[t]; }

enum { TILE_CONFIG = 17, XSTATE_BV = 512 }; /* component of the XSAVE area, and where its header is */

static void find_shapes(State *s, ucontext_t *context) {
    unsigned eax, ebx, ecx, edx;
    uint8_t *xsave = (uint8_t *)context->uc_mcontext.fpregs;
    if (!__get_cpuid_count(0xD, TILE_CONFIG, &eax, &ebx, &ecx, &edx) || !eax)
        return;
    uint64_t in_use;
    memcpy(&in_use, xsave + XSTATE_BV, 8);
    s->is_configured = in_use >> TILE_CONFIG & 1 && shapes_of(s, xsave + ebx);
}

static float widened(uint16_t bf16) {
    uint32_t bits = (bf16 & 0x7F80) ? (uint32_t)bf16 << 16 : (uint32_t)(bf16 & 0x8000) << 16; /* subnormals are zeros */
    float single;
    memcpy(&single, &bits, 4);
    return single;
}

static int multiply(State *s, const Instruction *i) {
    int dst = i->reg, a = i->rm, b = i->vvvv;
    if (!has_shape(s, dst) || !has_shape(s, a) || !has_shape(s, b) || dst == a || dst == b || a == b)
        return 0;
    if (s->rows[a] != s->rows[dst] || s->bytes[b] != s->bytes[dst] || s->bytes[a] != 4 * s->rows[b])
        return 0;
    for (int m = 0; m < s->rows[dst]; m++)
        for (int n = 0; n < s->bytes[dst] / 4; n++) {
            float even = 0, odd = 0;
            uint32_t sum = 0;
            for (int k = 0; k < s->rows[b]; k++) {
                const Row *x = &s->tile[a][m], *y = &s->tile[b][k];
                if (i->kind == TDPBF16PS) {
                    even += widened(x->word[2 * k]) * widened(y->word[2 * n]);
                    odd += widened(x->word[2 * k + 1]) * widened(y->word[2 * n + 1]);
                } else {
                    for (int e = 0; e < 4; e++) {
                        uint8_t left = x->byte[4 * k + e], right = y->byte[4 * n + e];
                        sum += i->kind == TDPBUSD ? (uint32_t)(left * (int8_t)right) : (uint32_t)((int8_t)left * right);
                    }
                }
            }
            if (i->kind == TDPBF16PS)
                s->tile[dst][m].single[n] += even + odd;
            else
                s->tile[dst][m].dword[n] += sum;
        }
    return 1;
}

static int execute(State *s, const Instruction *i) {
    switch (i->kind) {
    case LDTILECFG: return configure(s, i->address);
    case TILERELEASE: s->is_configured = 0; return 1;
    case TILEZERO: memset(s->tile[i->reg], 0, sizeof s->tile[0]); return has_shape(s, i->reg);
    case TILELOADD:
    case TILELOADDT1:
        if (!has_shape(s, i->reg))
            return 0;
        memset(s->tile[i->reg], 0, sizeof s->tile[0]);
        for (int row = 0; row < s->rows[i->reg]; row++)
            memcpy(s->tile[i->reg][row].byte, i->address + row * i->stride, s->bytes[i->reg]);
        return 1;
    case TILESTORED:
        if (!has_shape(s, i->reg))
            return 0;
        for (int row = 0; row < s->rows[i->reg]; row++)
            memcpy(i->address + row * i->stride, s->tile[i->reg][row].byte, s->bytes[i->reg]);
        return 1;
    }
    return multiply(s, i);
}

static void handle(int number, siginfo_t *info, void *raw) {
    ucontext_t *context = raw;
    Instruction i;
    State *s = own_state();
    if (s)
        find_shapes(s, context);
    if (s && decode(context, &i) && execute(s, &i)) {
        atomic_fetch_add(&executed[i.kind], 1);
        context->uc_mcontext.gregs[REG_RIP] += i.length;
        return;
    }
    if (previous.sa_flags & SA_SIGINFO)
        previous.sa_sigaction(number, info, raw);
    else if (previous.sa_handler == SIG_DFL || previous.sa_handler == SIG_IGN)
        signal(number, SIG_DFL); /* the instruction runs again, and stops the process */
    else
        previous.sa_handler(number);
}

int amx_trap_install(void) {
    struct sigaction action = {.sa_sigaction = handle, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    return !sigaction(SIGILL, &action, &previous);
}

unsigned long amx_trap_count(int kind) { return atomic_load(&executed[kind]); }
