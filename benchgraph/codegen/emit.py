"""Tensor IR, after all its passes, to LLVM IR.

A function becomes `void name(ptr argv)`. argv holds pointers to the parameters in order, to the shared arena, and to the thread arenas:
that of thread t is thread_stride(func) * t bytes further. A parallel loop becomes a function of its own,

    void body(ptr ctx, i64 begin, i64 end, i64 thread)

which the external function `benchgraph_parallel(ptr body, ptr ctx, i64 tasks)` calls for disjoint, non-empty [begin, end). ctx is argv, or
a struct of argv and the loop variables and registers of the surrounding code that the loop uses.

Parameters and arenas have alias scopes, so that loads of one can move across stores to another: buffers bound to different parameters must
not overlap, except for the function's in-place pairs. Loops need no llvm.loop metadata, as the JIT runs LLVM without its vectorisers
(runtime/code.py). Multiplications and additions of floats may contract into FMAs; nothing else is relaxed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from benchgraph.codegen import clock_readings, ir
from benchgraph.codegen.building_blocks import INTO_L2, prefetch
from benchgraph.codegen.calls import is_run_by_a_thread, kernels, packings, products
from benchgraph.codegen.clock_readings import ClockReadings
from benchgraph.codegen.expressions import access, evaluate
from benchgraph.codegen.function_builder import Call, Calls, FunctionBuilder, memories
from benchgraph.codegen.intrinsics import I8, I32, I64, PTR, VOID, declare
from benchgraph.codegen.loop_invariants import invariant_loads, invariant_values
from benchgraph.codegen.tile_registers import configure, release
from benchgraph.machine.target import LINE_BYTES, Target
from benchgraph.tir.affine import inside
from benchgraph.tir.build import constant
from benchgraph.tir.ir import Alloc, Brgemm, For, Func, If, Load, Pack, Prefetch, Scope, Seq, Stmt, Store
from benchgraph.tir.loops import is_parallel
from benchgraph.tir.visit import exprs, loads_of, statements, tensor_names, variables, walk, written

PARALLEL = "benchgraph_parallel"
UNROLLED_LOADS = 4  # of a short iteration (docs/measurements/codegen.md, Loops of two iterations)


def emit(functions: Iterable[Func], target: Target, *, is_profiled: bool = False) -> Iterator[str]:
    """LLVM modules as text, each as soon as it is complete: for each function its kernels, its packing code, if any, then the function.
    Functions share kernels and packing code.

    is_profiled: functions read the clock between the statements of their bodies, except init (clock_readings.py).
    Raises Unimplemented for a dtype without code generation.
    """
    if is_profiled:
        yield clock_readings.RUNTIME
    defined = dict[str, ir.Function]()
    for func in functions:
        brgemms = products(func, target)
        for module in kernels((product.kernel for product in brgemms.values()), f"{func.name}.kernels", target, defined):
            defined |= module.functions
            yield str(module)
        calls: Calls = {i: (product.call(defined[product.kernel.name]),) for i, product in brgemms.items()}
        packing = ir.Module(f"{func.name}.packing", defined)
        calls.update(packings(packing, func, target))
        if packing.functions:
            defined |= packing.functions
            yield str(packing)
        yield str(_module(func, target, calls, ClockReadings.of(func) if is_profiled and not func.runs_once else None))


def _module(func: Func, target: Target, calls: Calls, readings: ClockReadings | None) -> ir.Module:
    module = ir.Module(func.name)
    function = ir.Function(module, ir.FunctionType(VOID, [PTR]), func.name)
    function.attributes.update(_attributes(func))
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    f = FunctionBuilder(builder, func, target, memories(module, func), function.args[0], calls, is_task=False)
    f.load_bases(I64(0), func.body)
    if readings is None:
        _statement(f, func.body)
    else:
        _timed(f, readings)
    f.return_void()
    return module


def _timed(f: FunctionBuilder, readings: ClockReadings) -> None:
    """The body, with readings of the clock before and behind each of its statements."""
    readings.read(f.builder, f.argv, clock_readings.BEGIN)
    for s in statements(f.func.body):
        f.readings = readings
        _statement(f, s)
        if not isinstance(s, Alloc):
            readings.read(f.builder, f.argv, clock_readings.END)
            readings = replace(readings, statement=readings.statement + 1)


def _attributes(func: Func) -> tuple[str, ...]:
    """Of func and its tasks. Init runs rarely, so it is not optimised: LLVM then takes a fifth of the time (docs/measurements/codegen.md).
    Packing and products are functions of their own, and are always optimised."""
    return ("nounwind", "noinline", "optnone") if func.runs_once else ("nounwind",)


def _statement(f: FunctionBuilder, s: Stmt) -> None:
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
            base, stride, lanes = access(f, s.tensor, s.index)
            mask = None if s.mask is None else evaluate(f, s.mask)
            f.store(s.tensor, base, stride, evaluate(f, s.value), lanes, mask, non_temporal=s.non_temporal)
        case Brgemm() | Pack():
            _call(f, f.calls[id(s)])
        case Prefetch():
            _prefetch(f, s)


def _if(f: FunctionBuilder, s: If) -> None:
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


def _for(f: FunctionBuilder, s: For) -> None:
    if constant(s.extent) == 0:
        return
    if f.is_task or not is_run_by_a_thread(s):
        _serial(f, s)
    elif is_parallel(s):
        _tasks(f, s)
    else:
        f.is_task = True
        with _tile_registers(f, s):
            _serial(f, s)
        f.is_task = False


def _serial(f: FunctionBuilder, s: For) -> None:
    if constant(s.extent) == 1 or (constant(s.extent) == 2 and _is_short(s.body)):
        for iteration in range(constant(s.extent) or 0):
            _body(f, s, I64(iteration))
    else:
        extent = evaluate(f, s.extent)
        is_entered = None if constant(s.extent) is not None else f.builder.icmp_signed("<", I64(0), extent)
        _loop(f, s, I64(0), extent, is_entered)


def _is_short(s: Stmt) -> bool:
    """Whether a loop of two iterations of it spends its time on the branch at its end, which is hard to predict, so that it is unrolled."""
    stmts = list(walk(s))
    if any(isinstance(inner, For | If | Brgemm | Pack) for inner in stmts):
        return False
    return sum(len(loads_of(e)) for inner in stmts for e in exprs(inner)) <= UNROLLED_LOADS


def _loop(f: FunctionBuilder, s: For, begin: ir.Value, end: ir.Value, is_entered: ir.Value | None) -> None:
    """Run the body for begin <= var < end. is_entered: whether there is a first iteration, None if there always is.

    Loop-invariant loads and values are computed before the loop.
    """
    b = f.builder
    changed = {f.memory(t) for t in written(s.body)}
    for value in invariant_values(s):
        evaluate(f, value)
    if is_entered is None:
        names = {memory.name for memory in changed}
        for load in invariant_loads(s):
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


def _body(f: FunctionBuilder, s: For, value: ir.Value) -> None:
    """The loop's body for this value of its variable."""
    f.variables[s.var.name], outer_ranges = value, f.ranges
    f.ranges = inside(s, outer_ranges)
    _statement(f, s.body)
    del f.variables[s.var.name]
    f.ranges = outer_ranges


def _tasks(f: FunctionBuilder, s: For) -> None:
    captured = _captured(f, s)
    context = ir.LiteralStructType([PTR, *(value.type for _, value in captured)])
    body = _task(f, s, context, [name for name, _ in captured])
    argument = f.argv if not captured else _store_context(f, context, [f.argv, *(value for _, value in captured)])
    extent = evaluate(f, s.extent)
    run = declare(f.builder.module, PARALLEL, VOID, [PTR, PTR, I64])
    f.builder.call(run, [body, argument, extent])


def _captured(f: FunctionBuilder, s: For) -> list[tuple[str, ir.Value]]:
    """Outer loop variables and registers that a loop's tasks use. No others: LLVM keeps a register whose address escapes in memory."""
    if not f.variables and not f.registers:
        return []
    read = {name for inner in walk(s.body) for e in exprs(inner) for name in variables(e)}
    used = tensor_names(s.body) - {inner.tensor.name for inner in walk(s.body) if isinstance(inner, Alloc)}
    return [(n, v) for n, v in f.variables.items() if n in read] + [(n, v) for n, v in f.registers.items() if n in used]


def _store_context(f: FunctionBuilder, context: ir.LiteralStructType, values: list[ir.Value]) -> ir.Value:
    address = f.builder.alloca(context)
    for position, value in enumerate(values):
        f.builder.store(value, _member(f.builder, address, context, position))
    return address


def _member(builder: ir.IRBuilder, at: ir.Value, context: ir.LiteralStructType, position: int) -> ir.Value:
    return builder.gep(at, [I64(0), I32(position)], inbounds=True, source_etype=context)


def _task(f: FunctionBuilder, s: For, context: ir.LiteralStructType, captured: list[str]) -> ir.Function:
    """The function that runs a range of the loop. captured: names of the values that the context holds after argv."""
    module = f.builder.module
    name = module.get_unique_name(f"{f.func.name}.{s.var.name}")
    function = ir.Function(module, ir.FunctionType(VOID, [PTR, I64, I64, I64]), name)
    function.linkage = "internal"
    function.attributes.update(_attributes(f.func))
    ctx, begin, end, thread = function.args
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    values = [builder.load(_member(builder, ctx, context, i), typ=t) for i, t in enumerate(context.elements)] if captured else [ctx]
    task = FunctionBuilder(builder, f.func, f.target, f.memories, values[0], f.calls, is_task=True, ranges=f.ranges)
    for key, value in zip(captured, values[1:], strict=True):
        (task.variables if key in f.variables else task.registers)[key] = value
    begun = None if f.readings is None else f.readings.begin_task(builder)
    task.load_bases(thread, s.body)
    with _tile_registers(task, s):
        _loop(task, s, begin, end, is_entered=None)
    if f.readings is not None and begun is not None:
        f.readings.finish_task(builder, values[0], thread, begun)
    task.return_void()
    return function


@contextmanager
def _tile_registers(f: FunctionBuilder, s: For) -> Iterator[None]:
    """Around a loop: tile registers have the shapes that all its calls need, if these are the same."""
    shapes = next((call.shapes for inner in walk(s.body) for call in f.calls.get(id(inner), ()) if call.shapes is not None), None)
    if shapes is not None:
        configure(f.builder, shapes)
    yield
    if shapes is not None:
        release(f.builder)


def _call(f: FunctionBuilder, calls: Iterable[Call]) -> None:
    for call in calls:
        pointers = [f.address(tensor, evaluate(f, index)) for tensor, index in call.pointers]
        integers = [*map(I64, call.integers), *(evaluate(f, v) for v in call.loop_variables)]
        f.builder.call(call.function, [*pointers, *integers, *(evaluate(f, Load(t, ())) for t in call.registers)])


def _prefetch(f: FunctionBuilder, s: Prefetch) -> None:
    """Prefetch into L2: the memory is needed tens of microseconds later, and L1 is too small to keep it until then."""
    (position,) = s.index
    first = f.address(s.tensor, evaluate(f, position))
    for run in range(s.count):
        begin = s.tensor.dtype.nbytes(run * s.stride)
        for line in range(s.lines):
            address = f.builder.gep(first, [I64(begin + line * LINE_BYTES)], source_etype=I8)
            prefetch(f.builder, address, INTO_L2, for_write=s.for_write)
