"""Passes over the text of an IR: `benchgraph opt --pipeline=decompose,fuse-fine FILE` prints what the passes make of it.

Graph IR or Tensor IR is recognised by the text. FILE is what BENCHGRAPH_DUMP_DIR writes of a stage, what a person wrote, or a golden test,
whose part from EXPECT on is not read. docs/ir-text.md has the grammar.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

from benchgraph.commands.help_page import Page
from benchgraph.core import passes as core
from benchgraph.core.errors import BenchgraphError, CompilerFault, InvalidShape, ParseError, UsageError, did_you_mean, within
from benchgraph.core.fields import read_fields
from benchgraph.core.options import DEFAULT_OPTIONS, Forced
from benchgraph.core.passes import Observer, Pass
from benchgraph.core.remarks import remark
from benchgraph.core.tokens import Tokens
from benchgraph.gir import passes as gir
from benchgraph.gir.ir import FusedOp, Graph
from benchgraph.gir.parse import parse_gir
from benchgraph.gir.text import print_gir, print_op
from benchgraph.gir.verify import verify as verify_gir
from benchgraph.harness.command_words import need_no_options, own_options, parsed_value
from benchgraph.harness.outputs import STDOUT
from benchgraph.lower import lower
from benchgraph.machine.target import ISAS, Target, current
from benchgraph.options.parsers import one_of, positive
from benchgraph.schedule.tuning import taken, tuned
from benchgraph.tir import passes as tir
from benchgraph.tir.ir import Func
from benchgraph.tir.parse import parse_tir
from benchgraph.tir.text import print_tir
from benchgraph.tir.verify import verify as verify_tir

OPTIONS = ("--pipeline", "--isa", "--cores", "--target")
PRINT, LIST = "--print-after-all", "--list"
LOWER = "lower"
EXPECT = "# EXPECT"  # the line of a golden test behind which the result stands
PIPELINES: dict[str, tuple[Pass[Any], ...]] = {"gir": gir.PIPELINE, "tir": tir.PIPELINE}
NAMES = {"gir": "Graph IR", "tir": "Tensor IR"}
# What --isa means besides the level, so that results do not depend on the machine that opt runs on.
MODEL = {"l1_bytes": 32 << 10, "l2_bytes": 1 << 20, "cores": 2}
_START = re.compile(r"(?:\s|#.*)*(func\b|graph\s*\(|graph\b|)")

# Raised by code whose input is not of the form that it works on.
_UNFIT = (ArithmeticError, AssertionError, AttributeError, LookupError, StopIteration, TypeError, ValueError)
_LLVM = re.compile(r"\s*; ModuleID|(?:\s*;.*\n)*\s*(?:source_filename|target|define|declare|attributes|[@%!$])")


@dataclass(frozen=True)
class Request:
    """file: - for standard input. pipeline: names of passes, `lower`, or `gir` and `tir` for all passes of an IR."""

    file: str
    pipeline: tuple[str, ...]
    target: Target
    prints_all: bool = False


def opt(given: Sequence[str]) -> str:
    """The answer to the command's words. Raises UsageError, ParseError for broken text, and what passes and verifiers raise."""
    if LIST in given:
        return listing()
    request = read(given)
    return run(text_of(request.file), request, _print if request.prints_all else lambda *_: None)


def read(given: Sequence[str]) -> Request:
    """Raises UsageError."""
    rest = list[str]()
    own = dict(own_options("opt", OPTIONS, [word for word in given if word != PRINT], rest))
    need_no_options("opt", rest, (*OPTIONS, PRINT, LIST))
    if len(rest) != 1:
        raise UsageError(f"{len(rest)} files are named", where="opt", fix="name one, or - for standard input")
    if "--pipeline" not in own:
        raise UsageError("no passes are named", where="opt", fix=f"add --pipeline=PASS[,PASS...]; 'benchgraph opt {LIST}' shows them")
    names = tuple(name.strip() for name in own["--pipeline"].split(",") if name.strip())
    return Request(rest[0], tuple(map(_known, names)), _target(own), PRINT in given)


def run(text: str, request: Request, observe: Observer) -> str:
    """The text after the pipeline. Every pass' result is verified as in a compilation, and so is the text that is given."""
    name = "standard input" if request.file == STDOUT else request.file
    kind, ir = _parsed(text.partition(f"\n{EXPECT}")[0], name)
    given = ir[0].forced if kind == "gir" else ()
    with taken() as nests:
        for word in request.pipeline:
            if word == LOWER:
                if kind == "tir":
                    raise UsageError("there is Tensor IR before it already", where=f"opt: {LOWER}", fix="leave it out")
                kind, ir = "tir", _lowered(ir[0])
                observe(LOWER, partial(_printed, ir), 0.0)
                continue
            for p in _passes(word, kind):
                ir = tuple(_after(p, x, request.target) for x in ir)
                observe(p.name, partial(_printed, ir), 0.0)
    for row in _foreign([f for f in given if f.nest in nests], request.target):
        what = f"'{row.nest}' has the schedule of {row.by}, as the text forces it, and this target has no such row"
        remark(f"opt: {what}; take it out of forced=[...] for the target's own choice")
    return _printed(ir)


def _foreign(rows: Sequence[Forced], target: Target) -> Iterator[Forced]:
    """Those that neither the target's table nor the configured tuning file has, such as those of another machine's."""
    own = tuned(DEFAULT_OPTIONS, target).forced if rows else ()
    yield from (row for row in rows if row not in own)


def listing() -> str:
    """What --pipeline takes: a line for each pass, in the order of a compilation."""
    page, seen = Page(), set[str]()
    for kind, pipeline in PIPELINES.items():
        rows = [(kind, "all of these passes, in this order")]
        for before, p in zip((None, *pipeline), pipeline, strict=False):
            rows.append((p.name, _about(p) if before is None or p.name not in seen else f"once more, after {before.name}"))
            seen.add(p.name)
        page.rows(NAMES[kind], rows)
        if kind == "gir":
            page.rows(f"From {NAMES['gir']} to {NAMES['tir']}", [(LOWER, "one nest of loops for each fused op")])
    return page.done()


def _about(p: Pass[Any]) -> str:
    first = (sys.modules[p.fn.__module__].__doc__ or "").splitlines()[0]
    return first.removeprefix(f"{p.name}: ").removesuffix(".")


def _known(word: str) -> str:
    """The word of a pipeline; for a pass' former name its new one. Raises UsageError."""
    names = {p.name for pipeline in PIPELINES.values() for p in pipeline} | {LOWER, *PIPELINES}
    for p in (p for pipeline in PIPELINES.values() for p in pipeline if word in p.former_names):
        remark(f"opt: --pipeline={word}: the pass is called {p.name} now")
        return p.name
    if word not in names:
        raise UsageError(
            "no such pass", where=f"opt: --pipeline={word}", fix=did_you_mean(word, names) or f"'benchgraph opt {LIST}' shows them"
        )
    return word


def _target(own: dict[str, str]) -> Target:
    """This machine, or with --isa a model of the level, in both cases with what --target and --cores say."""
    changes = dict[str, Any]()
    if "--target" in own:
        tokens = Tokens(own["--target"] + ")", "a target", r"[-,=()\[\]]", "opt: --target")
        names = ", ".join(f.name for f in fields(Target) if f.name != "isa")
        try:
            changes = read_fields(tokens, Target, ")", without=("isa",))
        except ParseError as bad:
            what = f"it is no list of FIELD=VALUE: {bad.what}"
            raise UsageError(what, where=f"opt: --target={own['--target']}", fix=f"fields: {names}; texts are in double quotes") from bad
        if wrong := next((name for name in ("l1_bytes", "l2_bytes", "cores") if changes.get(name, 1) < 1), ""):
            raise UsageError(f"{wrong} is {changes[wrong]}", where=f"opt: --target={own['--target']}", fix="give 1 or more")
    if "--cores" in own:
        changes["cores"] = parsed_value("opt", "--cores", own["--cores"], positive)
    if "--isa" in own:
        isa = parsed_value("opt", "--isa", own["--isa"], one_of(*ISAS))
        return Target(ISAS[isa], **MODEL | changes)
    return replace(current(), **changes)


def text_of(file: str) -> str:
    try:
        return sys.stdin.read() if file == STDOUT else Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as bad:
        why = bad.strerror if isinstance(bad, OSError) else "it is no text"
        raise BenchgraphError(f"cannot read the file: {why}", where=file, fix="name the text of a stage, or - for standard input") from bad


def _parsed(text: str, name: str) -> tuple[str, tuple[Any, ...]]:
    """Which IR a text is, and its graph or its functions, verified."""
    start = _START.match(text)
    word = start[1] if start is not None else ""
    if word == "graph":
        fix = "write 'graph(' for Graph IR; of an API graph's dump take a later stage, such as p0-01-gir.txt"
        raise ParseError("the text is an API graph's, which passes do not take", where=name, fix=fix)
    if not word and _LLVM.match(text):
        raise ParseError("the text is LLVM IR, which comes after all passes", where=name, fix="name the Tensor IR before it (*-tir.txt)")
    if not word:
        Tokens(text, "an IR's text", r".", name).syntax_error("'graph(' of Graph IR, or 'func' of Tensor IR")
    ir = (parse_gir(text, name),) if word.startswith("graph") else parse_tir(text, name)
    with within(name):
        for x in ir:
            if isinstance(x, Graph):
                verify_gir(x)
                _check_shapes(x)
            else:
                verify_tir(x)
    return ("gir" if word.startswith("graph") else "tir"), ir


def _check_shapes(g: Graph) -> None:
    """Raises InvalidShape for an op whose operands do not fit each other, or whose results are not of the declared shapes."""
    for op in g.ops:
        where, fix = f"`{print_op(g, op)}`", "correct the shape in the text"
        try:
            inferred = op.semantics.infer(op.attrs, tuple(g.value(id).type for id in op.ins))
        except InvalidShape as bad:
            raise InvalidShape(bad.what, where=where, fix=fix) from bad
        except _UNFIT as bad:
            lists = f"'benchgraph ops {op.kind}' shows them"
            raise InvalidShape(f"the operands or attributes are not those of {op.kind}", where=where, fix=lists) from bad
        for id, shape in zip(op.outs, inferred, strict=False):
            if (declared := g.value(id).shape) != shape:
                raise InvalidShape(f"the op gives %{id} the shape {shape}, the text {declared}", where=where, fix=fix)


def _passes(word: str, kind: str) -> tuple[Pass[Any], ...]:
    """What a word means where the IR is of this kind. Raises UsageError for a pass of the other IR."""
    if word == kind:
        return PIPELINES[kind]
    if (p := next((p for p in PIPELINES[kind] if p.name == word), None)) is not None:
        return (p,)
    other = next(k for k in NAMES if k != kind)
    fix = f"put '{LOWER}' before it" if kind == "gir" else f"give {NAMES[other]}, and put '{LOWER}' behind it"
    raise UsageError(f"it is for {NAMES[other]}, and there is {NAMES[kind]} before it", where=f"opt: --pipeline={word}", fix=fix)


def _after(p: Pass[Any], ir: Graph | Func, target: Target) -> Any:
    show, verify = (print_gir, verify_gir) if isinstance(ir, Graph) else (print_tir, verify_tir)
    return _unless_unfit(p.name, lambda: core.run((p,), ir, target, show=show, verify=verify, observe=lambda *_: None))


def _lowered(g: Graph) -> tuple[Func, ...]:
    if not all(isinstance(node, FusedOp) for node in g.nodes):
        what = "an op of the graph is in no fused op"
        raise BenchgraphError(what, where=f"opt: {LOWER}", fix="put 'gir', all passes over Graph IR, before it")
    functions: tuple[Func, ...] = _unless_unfit(LOWER, lambda: tuple(lower(g).functions()))
    for f in functions:
        verify_tir(f)
    return functions


def _unless_unfit(name: str, work: Callable[[], Any]) -> Any:
    """What `work` returns. Text may lack what earlier passes give; what goes wrong then is the user's to mend."""
    try:
        return work()
    except CompilerFault as bad:
        fix = "correct the text there, or report it if a compilation wrote it"
        raise BenchgraphError(f"the text contradicts itself: {bad.what}", where=f"opt: {bad.where}", fix=fix) from bad
    except _UNFIT as bad:
        what = "the text is of another stage than this one works on"
        fix = f"give the stage that stands before it in 'benchgraph opt {LIST}', or report it with the text if it is that one"
        raise BenchgraphError(what, where=f"opt: {name}", fix=fix) from bad


def _printed(ir: tuple[Graph | Func, ...]) -> str:
    return "\n".join(print_gir(x) if isinstance(x, Graph) else print_tir(x) for x in ir)


def _print(stage: str, text: Callable[[], str], seconds: float) -> None:
    print(f"# ---- after {stage}\n{text()}", file=sys.stderr)
