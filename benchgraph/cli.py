"""The command line. What it reads is in harness/argv.py and harness/knobs.py; here it is shown, run and reported.

Modules that need numpy, llvmlite or rich are imported inside functions: --help, --version and a misspelt option answer at once.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from benchgraph.core.config import config, table
from benchgraph.core.errors import BenchgraphError
from benchgraph.harness.argv import CommandLine, UsageError, parse
from benchgraph.harness.knobs import Globals, Knob, Mode, knobs_of
from benchgraph.harness.phases import table as phase_table
from benchgraph.harness.plugins import load_driver, load_report, names
from benchgraph.harness.problem import Problem
from benchgraph.harness.results import CaseResult, Machine, ResultSet

if TYPE_CHECKING:
    from benchgraph.harness.bench import Bench

FAILURES_SHOWN = 10  # benchdnn's
INTERRUPTED = 130  # the shell's exit code for Ctrl-C


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
        _section(formatter, "Shared options", [_row(k) for k in knobs_of(Globals).values()])
        for name in names("drivers"):
            driver = load_driver(name)
            _section(formatter, f"Driver {name}: {driver.about}", [_row(k) for k in knobs_of(driver.knobs).values()])
        _section(formatter, "Reports", [(name, _about("reports", name)) for name in names("reports")])
        _section(formatter, "Environment", [(f"{name}={default}".rstrip("="), help) for name, default, help in table()])


def _row(knob: Knob) -> tuple[str, str]:
    return f"{knob.option} {knob.value}", knob.help


def _section(formatter: click.HelpFormatter, title: str, rows: list[tuple[str, str]]) -> None:
    with formatter.section(title):
        formatter.write_dl(rows)


def _about(folder: str, name: str) -> str:
    """A plugin's first docstring line, read without running it: reports import what --help must not wait for."""
    import ast

    from benchgraph.harness.plugins import data_dir

    text = ast.get_docstring(ast.parse((data_dir(folder) / f"{name}.py").read_text(encoding="utf-8"))) or ""
    return next(iter(text.splitlines()), "")


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
    """
    if not words:
        raise click.exceptions.NoArgsIsHelpError(ctx)
    if words[0] == "ops":
        ctx.exit(_ops(words[1:]))
    try:
        config()
        line = parse(list(words))
        if not line.problems:
            raise UsageError("nothing to run", fix="add --case FILE")
    except BenchgraphError as bad:
        click.echo(f"benchgraph: {bad}", err=True)
        ctx.exit(2 if isinstance(bad, UsageError) else 1)
    ctx.exit(_run(line, _bench(ctx.obj)))


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


def _bench(given: Bench | None) -> Bench:
    from benchgraph.harness.bench import Bench

    return given or Bench()


def _run(line: CommandLine, bench: Bench) -> int:
    """Run, print as results come, report at the end. Returns the exit code."""
    started, done, machine = bench.clock(), list[CaseResult](), None
    interrupted = False
    try:
        machine = _machine(line, bench)
        for case in _results(line, bench):
            click.echo(case.line)
            done.append(case)
    except KeyboardInterrupt:
        interrupted = True
    results = ResultSet(line.globals.mode, machine, tuple(done), bench.clock() - started)
    reported = _report(line.globals, results)
    _summary(line.globals, results, len(line.problems) if interrupted else 0)
    if interrupted:
        return INTERRUPTED
    return results.exit_code if reported else 1


def _machine(line: CommandLine, bench: Bench) -> Machine | None:
    """Described only when somebody will read it, since measuring the peaks takes a second."""
    if line.globals.mode is not Mode.performance and not line.globals.report:
        return None
    from benchgraph.harness.machine import describe

    return describe(line.globals, bench)


def _results(line: CommandLine, bench: Bench) -> Iterator[CaseResult]:
    from benchgraph.harness.run import run_all

    with _progress(line.problems) as step:
        for case in run_all(line.problems, bench, lambda text: click.echo(text, err=True)):
            yield case
            step()


@contextmanager
def _progress(problems: tuple[Problem, ...]) -> Iterator[Callable[[], None]]:
    """A bar on a terminal when there are several cases; nothing otherwise."""
    if len(problems) < 2 or not sys.stderr.isatty():
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import Progress

    # lines printed meanwhile go above the bar, unless they go to a file
    with Progress(console=Console(stderr=True), redirect_stdout=sys.stdout.isatty(), transient=True) as bar:
        task = bar.add_task("cases", total=len(problems))
        yield lambda: bar.advance(task)


def _report(settings: Globals, results: ResultSet) -> bool:
    """Render every report asked for, and the table in mode P. False when a file could not be written."""
    written = True
    wanted = settings.report
    if settings.mode is Mode.performance and ("console", "") not in wanted:
        wanted = (("console", ""), *wanted)
    for name, file in wanted:
        text = load_report(name)(results)
        if not file:
            click.echo(text)
            continue
        try:
            path = Path(file)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            click.echo(f"{name} report: {path}")
        except OSError as bad:
            click.echo(f"benchgraph: --report={name}:{file}: cannot write the file: {bad.strerror}", err=True)
            written = False
    return written


def _summary(settings: Globals, results: ResultSet, planned: int) -> None:
    """benchdnn's closing lines. planned: how many cases there were to be when the run was interrupted, else 0."""
    failures = results.failures
    if failures and settings.summary == "failures":
        click.echo("=== Failed cases summary (--summary=no-failures to disable) ===")
        for case in failures[:FAILURES_SHOWN]:
            click.echo(case.line)
        if len(failures) > FAILURES_SHOWN:
            click.echo(f"(... {len(failures) - FAILURES_SHOWN} more cases ...)")
        click.echo("=" * 30)
    if settings.verbose:
        click.echo(phase_table((case.phases for case in results.cases), results.elapsed_s))
    if planned:
        click.echo(f"interrupted after {len(results.cases)} of {planned} cases")
    click.echo(results.summary)
    click.echo(f"total: {results.elapsed_s:.2f}s;")
