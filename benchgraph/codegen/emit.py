"""Tensor IR, after all its passes, to LLVM IR.

A function becomes `void name(ptr argv)`. argv holds the pointers of the parameters in order, then of the shared arena, then of the thread
arenas: thread t's starts thread_stride(func) * t bytes further. A parallel loop becomes a function of its own,

    void body(ptr ctx, i64 begin, i64 end, i64 thread)

that the external symbol `benchgraph_parallel(ptr body, ptr ctx, i64 tasks)` calls for disjoint, non-empty [begin, end). ctx is argv, or,
where the loop uses loop variables or registers of the surrounding code, a struct of argv and those.

Parameters and arenas carry alias scopes, so that loads of one move across stores to another: buffers bound to different parameters
must not overlap, unless the function says that one may lie over the other. Loops need no llvm.loop metadata: the JIT runs LLVM without
its vectorisers (runtime/code.py). Multiplications and additions of floats may contract into fma; nothing else is relaxed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from benchgraph.codegen import ir
from benchgraph.codegen.blocks import SECOND_LEVEL, prefetch
from benchgraph.codegen.calls import kernels, packings, products
from benchgraph.codegen.expressions import evaluate, place
from benchgraph.codegen.frame import Call, Calls, Frame, memories
from benchgraph.codegen.intrinsics import I8, I32, I64, PTR, VOID, declare, stack
from benchgraph.codegen.invariant import fixed_loads, fixed_values
from benchgraph.codegen.tile_registers import configure, release
from benchgraph.core.target import LINE_BYTES, Target
from benchgraph.tir.affine import inside
from benchgraph.tir.build import constant
from benchgraph.tir.cost import pays_in_parallel
from benchgraph.tir.ir import Alloc, Brgemm, For, Func, If, Load, LoopKind, Pack, Prefetch, Scope, Seq, Stmt, Store
from benchgraph.tir.visit import exprs, loads_of, tensor_names, variables, walk, written

PARALLEL = "benchgraph_parallel"
SHORT = 4  # loads of a short body: borders of windows. A depthwise convolution of two vectors of channels takes a tenth longer with loops


def emit(functions: Iterable[Func], target: Target) -> Iterator[str]:
    """LLVM modules as text, each as soon as it is written: of each function what its products call and what its packings call, if there are
    any, then the function. Later ones call what is defined for earlier ones.

    Raises Unimplemented for a dtype that has no code generation yet.
    """
    defined = dict[str, ir.Function]()
    for func in functions:
        found = products(func, target)
        for module in kernels((product.kernel for product in found.values()), f"{func.name}.kernels", target, defined):
            defined |= module.functions
            yield str(module)
        calls: Calls = {i: (product.called(defined[product.kernel.name]),) for i, product in found.items()}
        packing = ir.Module(f"{func.name}.packing", defined)
        calls.update(packings(packing, func, target))
        if packing.functions:
            defined |= packing.functions
            yield str(packing)
        yield str(_module(func, target, calls))


def _module(func: Func, target: Target, calls: Calls) -> ir.Module:
    module = ir.Module(func.name)
    function = ir.Function(module, ir.FunctionType(VOID, [PTR]), func.name)
    function.attributes.update(_attributes(func))
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    frame = Frame(builder, func, target, memories(module, func), function.args[0], calls, is_task=False)
    frame.load_bases(I64(0), func.body)
    _statement(frame, func.body)
    frame.finish()
    return module


def _attributes(func: Func) -> tuple[str, ...]:
    """Of func and its tasks. LLVM takes a fifth of the time for one that it is not to optimise, and what that would gain is soon told.

    On one thread of a Zen 4: init of MLP_2 in int8 takes 0.2 ms and 45 of the 105 ms that all its code takes LLVM, with `optnone` 20 of 80.
    As code of main, which it is not used for: GELU 1.26 times as slow, softmax 1.15, ReLU and Add alike. Packing and products are functions
    of their own, without it.
    """
    return ("nounwind", "noinline", "optnone") if func.runs_once else ("nounwind",)


def _statement(f: Frame, s: Stmt) -> None:
    match s:
        case For():
            _for(f, s)
        case If():
            _if(f, s)
        case Seq():
            for inner in s.stmts:
                _statement(f, inner)
        case Alloc():
            if s.tensor.scope is Scope.register:
                f.declare_register(s.tensor)
        case Store():
            base, stride, lanes = place(f, s.tensor, s.index)
            mask = None if s.mask is None else evaluate(f, s.mask)
            f.store(s.tensor, base, stride, evaluate(f, s.value), lanes, mask, non_temporal=s.non_temporal)
        case Brgemm() | Pack():
            _call(f, f.calls[id(s)])
        case Prefetch():
            _prefetch(f, s)


def _if(f: Frame, s: If) -> None:
    condition = evaluate(f, s.cond)
    if s.orelse is None:
        with f.builder.if_then(condition):
            _statement(f, s.then)
        return
    with f.builder.if_else(condition) as (then, otherwise):
        with then:
            _statement(f, s.then)
        with otherwise:
            _statement(f, s.orelse)


def _for(f: Frame, s: For) -> None:
    if constant(s.extent) == 0:
        return
    if s.kind is LoopKind.parallel and not f.is_task:
        _parallel(f, s)
    elif constant(s.extent) == 1 or (constant(s.extent) == 2 and _is_short(s.body)):
        for iteration in range(constant(s.extent) or 0):
            _body(f, s, I64(iteration))
    else:
        extent = evaluate(f, s.extent)
        is_entered = None if constant(s.extent) is not None else f.builder.icmp_signed("<", I64(0), extent)
        _loop(f, s, I64(0), extent, is_entered)


def _is_short(s: Stmt) -> bool:
    """Whether it is better written twice than put in a loop, whose end is hard to predict."""
    inside = list(walk(s))
    if any(isinstance(inner, For | If | Brgemm | Pack) for inner in inside):
        return False
    return sum(len(loads_of(e)) for inner in inside for e in exprs(inner)) <= SHORT


def _loop(f: Frame, s: For, begin: ir.Value, end: ir.Value, is_entered: ir.Value | None) -> None:
    """begin <= var < end around the body; is_entered: whether there is a first iteration, None when there certainly is.

    What every iteration reads at the same place is read in front of the loop, and what it makes of loop variables around is made there.
    """
    b = f.builder
    changed = {f.memory(t) for t in written(s.body)}
    for value in fixed_values(s):
        evaluate(f, value)
    if is_entered is None:
        names = {memory.name for memory in changed}
        for load in fixed_loads(s):
            if all(names.isdisjoint(f.memory(read.tensor).overlaps or names) for read in loads_of(load)):
                evaluate(f, load)
    before = b.block
    body, after = (b.append_basic_block(f"{s.var.name}.{part}", changed) for part in ("body", "end"))
    if is_entered is None:
        b.branch(body)
    else:
        b.cbranch(is_entered, body, after)
    b.position_at_end(body)
    var = b.phi(I64, name=s.var.name)
    _body(f, s, var)
    following = b.add(var, I64(1), flags=("nuw", "nsw"))
    var.add_incoming(begin, before)
    var.add_incoming(following, b.block)
    b.cbranch(b.icmp_unsigned("!=", following, end), body, after)
    b.position_at_end(after)


def _body(f: Frame, s: For, value: ir.Value) -> None:
    """The loop's body, where its variable has this value."""
    f.variables[s.var.name], around = value, f.ranges
    f.ranges = inside(s, around)
    _statement(f, s.body)
    del f.variables[s.var.name]
    f.ranges = around


def _parallel(f: Frame, s: For) -> None:
    captured = _captured(f, s)
    context = ir.LiteralStructType([PTR, *(value.type for _, value in captured)])
    body = _task(f, s, context, [name for name, _ in captured])
    argument = f.argv if not captured else _packed(f, context, [f.argv, *(value for _, value in captured)])
    extent = evaluate(f, s.extent)
    if not pays_in_parallel(s, f.target):
        f.builder.call(body, [argument, I64(0), extent, I64(0)])
        return
    run = declare(f.builder.module, PARALLEL, VOID, [PTR, PTR, I64])
    f.builder.call(run, [body, argument, extent])


def _captured(f: Frame, s: For) -> list[tuple[str, ir.Value]]:
    """Outer loop variables and registers that a parallel loop uses. Only these: a register whose address leaves stays in memory."""
    if not f.variables and not f.registers:
        return []
    read = {name for inner in walk(s.body) for e in exprs(inner) for name in variables(e)}
    used = tensor_names(s.body) - {inner.tensor.name for inner in walk(s.body) if isinstance(inner, Alloc)}
    return [(n, v) for n, v in f.variables.items() if n in read] + [(n, v) for n, v in f.registers.items() if n in used]


def _packed(f: Frame, context: ir.LiteralStructType, values: list[ir.Value]) -> ir.Value:
    packed = stack(f.builder, context)
    for position, value in enumerate(values):
        f.builder.store(value, _member(f.builder, packed, context, position))
    return packed


def _member(builder: ir.IRBuilder, at: ir.Value, context: ir.LiteralStructType, position: int) -> ir.Value:
    return builder.gep(at, [I64(0), I32(position)], inbounds=True, source_etype=context)


def _task(f: Frame, s: For, context: ir.LiteralStructType, captured: list[str]) -> ir.Function:
    """The function that runs a share of a parallel loop. captured: names of the values that the context holds after argv."""
    module = f.builder.module
    name = module.get_unique_name(f"{f.func.name}.{s.var.name}")
    function = ir.Function(module, ir.FunctionType(VOID, [PTR, I64, I64, I64]), name)
    function.linkage = "internal"
    function.attributes.update(_attributes(f.func))
    ctx, begin, end, thread = function.args
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    values = [builder.load(_member(builder, ctx, context, i), typ=t) for i, t in enumerate(context.elements)] if captured else [ctx]
    task = Frame(builder, f.func, f.target, f.memories, values[0], f.calls, is_task=True, ranges=f.ranges)
    for key, value in zip(captured, values[1:], strict=True):
        (task.variables if key in f.variables else task.registers)[key] = value
    task.load_bases(thread, s.body)
    shapes = next((call.shapes for inner in walk(s.body) for call in f.calls.get(id(inner), ()) if call.shapes is not None), None)
    if shapes is not None:
        configure(builder, shapes)
    _loop(task, s, begin, end, is_entered=None)
    if shapes is not None:
        release(builder)
    task.finish()
    return function


def _call(f: Frame, calls: Iterable[Call]) -> None:
    for call in calls:
        places = [f.element(tensor, evaluate(f, index)) for tensor, index in call.places]
        numbers = [*map(I64, call.numbers), *(evaluate(f, v) for v in call.outer)]
        f.builder.call(call.function, [*places, *numbers, *(evaluate(f, Load(t, ())) for t in call.held)])


def _prefetch(f: Frame, s: Prefetch) -> None:
    """Into the second-level cache: it is needed tens of microseconds later, and the first level is too small to wait in."""
    (position,) = s.index
    first = f.element(s.tensor, evaluate(f, position))
    for run in range(s.count):
        begin = s.tensor.dtype.nbytes(run * s.stride)
        for line in range(s.lines):
            at = f.builder.gep(first, [I64(begin + line * LINE_BYTES)], source_etype=I8)
            prefetch(f.builder, at, SECOND_LEVEL, is_store=s.is_store)
