"""The command line. What it reads is in harness/argv.py and harness/knobs.py, how it is run in harness/session.py; here are the commands.

Modules that need numpy, llvmlite, rich or multiprocessing are imported inside functions: --help, --version and a misspelt option answer
at once.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from benchgraph.core.config import config, table
from benchgraph.core.errors import BenchgraphError
from benchgraph.harness.argv import CommandLine, UsageError, parse
from benchgraph.harness.blas import use_one_thread
from benchgraph.harness.interrupt import INTERRUPTED, interruptible
from benchgraph.harness.knobs import INERT, Globals, Knob, knobs_of
from benchgraph.harness.outputs import kept_apart, need_folder, need_outputs
from benchgraph.harness.plugins import about, load_driver, names
from benchgraph.harness.screen import warn
from benchgraph.harness.session import run_line

if TYPE_CHECKING:
    from benchgraph.harness.bench import Bench


class _Command(click.Command):
    """A command whose options are a stream that harness.argv reads, and whose help comes from the knob sets."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        control = [
            ("--driver NAME, --NAME", f"choose the driver: {', '.join(names('drivers'))}"),
            ("--batch FILE", "read options from a file (words, # comments, \\ joins); found like a case, and may name the driver"),
            ("--reset", "restore the driver's options"),
            ("--help, --version", "show this, or the version"),
        ]
        _section(formatter, "Options", control)
        for group in dict.fromkeys(k.group for k in knobs_of(Globals).values()):
            _section(formatter, group, [_row(k) for k in knobs_of(Globals).values() if k.group == group])
        for name in names("drivers"):
            driver = load_driver(name)
            _section(formatter, f"Driver {name}: {driver.about}; [,...] runs the case once per alternative", _rows(driver.knobs))
        _section(formatter, "Taken for benchdnn's sake, changing nothing", list(INERT.items()))
        _section(formatter, "Reports", [(name, about("reports", name)) for name in names("reports")])
        _section(formatter, "Environment", [(f"{name}={default}".rstrip("="), help) for name, default, help in table()])


def _rows(knobs: type) -> list[tuple[str, str]]:
    return [_row(k) for k in knobs_of(knobs).values()]


def _row(knob: Knob) -> tuple[str, str]:
    return f"{knob.option} {knob.value}".rstrip(), knob.help


def _section(formatter: click.HelpFormatter, title: str, rows: list[tuple[str, str]]) -> None:
    with formatter.section(title):
        formatter.write_dl(rows)


def _show_version(ctx: click.Context, given: bool) -> None:
    if given:
        from benchgraph.harness.machine import version_of

        click.echo(f"benchgraph {version_of('benchgraph')}")
        ctx.exit()


@click.command(
    cls=_Command,
    context_settings={"ignore_unknown_options": True, "help_option_names": ["--help"], "max_content_width": 120},
    options_metavar="[OPTIONS]",
)
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="--driver NAME [OPTIONS] --case FILE ...")
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=lambda ctx, _, given: _show_version(ctx, given))
@click.pass_context
def main(ctx: click.Context, words: tuple[str, ...]) -> None:
    """Run oneDNN Graph dumps through a graph compiler: check the results, measure the speed.

    Options are --name=value or --name value. They set state; each --case runs with the options so far, once per element of the product
    of comma lists. Exit code 0 when nothing failed, 1 when something did, 2 for a command line that cannot be understood.

    \b
    benchgraph --driver graph --case mlp.json
    benchgraph --mode=P --graph --mb=32,128 --case=mlp.json --report=json:out.json
    benchgraph --matmul --dt=f32,bf16 128x512:512x256
    benchgraph ops [--kind=SoftMax]        the op table, or one row in full
    benchgraph history [--case=REGEX] [--policy=P] [--since=REF] [--history=URL]        the runs kept by --history, or a case over time
    benchgraph history --add=FILE [--commit=REF]        put a JSON report into the history
    benchgraph regressions [--since=REF] [--match=REGEX] [--threshold=5%] [--history=URL]
               what got slower for good, and between which commits; exit code 1 when something did
    benchgraph explain --case mlp.json [OPTIONS] [--json] [-o FILE]        what the compiler chose for it, and why
    benchgraph compile-times --case mlp.json [OPTIONS] [--runs=5]        how long it takes to compile, and to start warm
    benchgraph show --case mlp.json [--policy=P] [--format=text|dot|svg] [-o FILE]        the partitioned graph, drawn
    benchgraph compare A.json[,A2.json...] B.json[,B2.json...] [--threshold=5%] [--match=REGEX] [--other-machine]
               [--report=console|markdown|csv[:FILE]]        what got slower, faster, wrong; exit code 1 when something got worse
    benchgraph report A.json [B.json ...] [-o report.html]        saved results as a page for a browser
    benchgraph tune --matmul 128x479:479x1024 [--store=FILE] [--rounds=N] [--choices=N] [-o FILE]
               the schedule's choice for single products against every legal one; later runs read the findings with --tuning=FILE
    benchgraph fuzz --seed S --count N [--start I] [--ops=MAX] [--tries T] [-o DIR] [OPTIONS]        random graphs, failures shrunk
    """
    if not words:
        raise click.exceptions.NoArgsIsHelpError(ctx)
    use_one_thread()
    if words[0] == "ops":
        ctx.exit(_ops(words[1:]))
    if words[0] == "show":
        ctx.exit(_show(words[1:], _bench(ctx.obj)))
    if words[0] == "explain":
        ctx.exit(_explain(words[1:], _bench(ctx.obj)))
    if words[0] == "tune":
        ctx.exit(_tune(words[1:], _bench(ctx.obj)))
    if words[0] == "compile-times":
        ctx.exit(_compile_times(words[1:]))
    if words[0] == "fuzz":
        ctx.exit(_fuzz(words[1:], _bench(ctx.obj)))
    if words[0] in ("compare", "history", "regressions", "report"):
        ctx.exit(_look_back(*words))
    try:
        config()
        line = parse(list(words))
        if not line.planned:
            raise UsageError("nothing to run", fix="add --case FILE")
        if not line.problems:
            raise UsageError(f"--match and --shard leave none of {line.planned} cases", fix="widen them")
        jobs = _workers(line)
        _need_means(line, ctx.obj)
        need_outputs(line.globals)
    except BenchgraphError as bad:
        ctx.exit(_refused(bad))
    for note in line.notes:
        warn(note)
    with interruptible():
        code = run_line(line, _bench(ctx.obj), jobs).code
    ctx.exit(code)


def _refused(bad: BenchgraphError) -> int:
    """Say what is wrong. Returns the exit code."""
    warn(str(bad))
    return 2 if isinstance(bad, UsageError) else 1


def _told(answer: Callable[[], str]) -> int:
    """Print what a command answers. Returns the exit code."""
    try:
        config()
        click.echo(answer())
    except BenchgraphError as bad:
        return _refused(bad)
    return 0


def _need_means(line: CommandLine, given: Bench | None) -> None:
    """What the cases run on has to be there before the first of them runs."""
    from benchgraph.harness.bench import need_isas, need_libraries, need_tuning

    need_isas(line.problems)
    need_tuning(line.problems)
    need_libraries([p for p in line.problems if p.globals.library != Globals().library], _bench(given))


def _workers(line: CommandLine) -> int:
    from benchgraph.harness.isolate import workers_of

    return workers_of(line)


def _ops(words: tuple[str, ...]) -> int:
    """Print the op table. Returns the exit code."""
    from benchgraph.harness.ops_table import in_full, overview

    kind = words[0].removeprefix("--kind=") if len(words) == 1 and words[0].startswith("--kind=") else " ".join(words[1:])
    if (words and not kind) or len(words) > 2 or (len(words) == 2 and words[0] != "--kind"):
        click.echo(f"benchgraph: ops: cannot read '{' '.join(words)}'; use `benchgraph ops` or `benchgraph ops --kind=NAME`", err=True)
        return 2
    try:
        click.echo(in_full(kind) if kind else overview())
    except BenchgraphError as bad:
        click.echo(f"benchgraph: ops: {bad}", err=True)
        return 1
    return 0


def _show(words: tuple[str, ...], bench: Bench) -> int:
    """Draw a partitioned graph. Returns the exit code."""
    from benchgraph.harness.show.command import show

    return _told(lambda: show(list(words), bench))


def _explain(words: tuple[str, ...], bench: Bench) -> int:
    """Tell what the compiler does with cases. Returns the exit code."""
    from benchgraph.harness.explain.command import run

    return _told(lambda: run(list(words), bench))


def _tune(words: tuple[str, ...], bench: Bench) -> int:
    """Search the template's parameters for cases of one product. Returns the exit code."""
    from benchgraph.harness.tune.command import run

    try:
        config()
        with interruptible():
            return run(list(words), bench, click.echo, warn)
    except BenchgraphError as bad:
        return _refused(bad)
    except KeyboardInterrupt:
        return INTERRUPTED


def _compile_times(words: tuple[str, ...]) -> int:
    """Time compilations and warm starts. Returns the exit code."""
    from benchgraph.harness.compile_times import run

    return _told(lambda: run(list(words)))


def _look_back(command: str, *words: str) -> int:
    """A question about results of earlier runs. Returns the exit code: 2 when it could not be answered."""
    if command == "compare":
        from benchgraph.harness.compare.command import run
    elif command == "history":
        from benchgraph.harness.history.command import history as run
    elif command == "report":
        from benchgraph.harness.page.command import report as run
    else:
        from benchgraph.harness.history.command import regressions as run
    try:
        text, code = run(list(words))
    except BenchgraphError as bad:
        warn(str(bad))
        return 2
    click.echo(text)
    return code


def _fuzz(words: tuple[str, ...], bench: Bench) -> int:
    """Run random graphs, then shrink those that failed. Returns the exit code."""
    from benchgraph.harness.fuzz.command import plan, read, shrink_all

    try:
        config()
        request = read(words)
        line = plan(request)
        jobs = _workers(line)
        _need_means(line, bench)
        need_outputs(line.globals)
        if request.tries:
            need_folder(Path(request.output), f"fuzz: --output={request.output}")
    except BenchgraphError as bad:
        return _refused(bad)
    with interruptible():
        ran = run_line(line, bench, jobs)
        try:
            with kept_apart(line.globals):
                for text in shrink_all(request, line.problems, ran.failures, bench):
                    click.echo(text)
        except KeyboardInterrupt:
            return INTERRUPTED
    return ran.code


def _bench(given: Bench | None) -> Bench:
    from benchgraph.harness.bench import Bench

    return given or Bench()
