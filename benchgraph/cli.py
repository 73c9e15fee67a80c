"""The command line. Its words are parsed in options/argv.py and options/knobs.py, cases run in harness/session.py; this file calls the
commands.

Modules that need numpy, llvmlite, rich or multiprocessing are imported inside functions, so that --help, --version and errors in words are
quick.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from benchgraph.commands.help import COMMANDS, overview, requested_help
from benchgraph.core.config import config, unknown
from benchgraph.core.errors import BenchgraphError, UnknownOption, UsageError, did_you_mean
from benchgraph.core.printable import print_any
from benchgraph.core.remarks import remarks_sent_to
from benchgraph.harness.blas_threads import use_one_thread
from benchgraph.harness.interrupt import code_of, interruptible, interruption_text
from benchgraph.harness.outputs import drop, full_output, kept_apart, need_folder, need_outputs
from benchgraph.harness.session import RunOutcome, run_line
from benchgraph.harness.standard_streams import LOST, enduring
from benchgraph.options.argv import CommandLine, parse
from benchgraph.options.knobs import Globals
from benchgraph.present.screen import warn
from benchgraph.results.exit_codes import ExitCode

if TYPE_CHECKING:
    from benchgraph.harness.bench import Bench

# Commands that print an answer -> a function of their words in benchgraph/commands. Those that look back at earlier runs return the exit
# code too, and any error of theirs is a refusal.
LOOK_BACK = {
    "compare": "compare.run",
    "history": "history.history",
    "regressions": "history.regressions",
    "merge": "merge.run",
    "render": "render.run",
}
ANSWERS = LOOK_BACK | {
    "list": "listing.listing",
    "ops": "ops.ops",
    "opt": "opt.opt",
    "show": "show.show",
    "explain": "explain.run",
    "compile-times": "compile_times.run",
    "localise": "localise.run",
    "calibrate": "calibrate.run",
    "import": "import_.run",
}
MEASURE = ("tune", "ab", "bisect")  # commands that measure, and print while they do
NEED_BENCH = ("show", "explain", "localise")


class _Command(click.Command):
    """A command whose options are parsed by options/argv.py, and whose help is commands/help.py's."""

    def invoke(self, ctx: click.Context) -> Any:
        """After Ctrl-C outside of a run (which handles it itself), print a line and exit with its own code: click's would be 1."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as by:
            warn(interruption_text(by))
            ctx.exit(code_of(by))

    def main(self, *given: Any, **named: Any) -> Any:
        """As click's, but an error of the output, such as a full disk, ends in one line."""
        try:
            return super().main(*given, **named)
        except OSError as bad:
            if bad.errno not in LOST or bad.filename is not None:  # errors of writing to an open file have no filename
                raise
            with suppress(OSError):
                warn(full_output(bad))
            drop(sys.stdout)
            sys.exit(ExitCode.failed)

    def get_help(self, ctx: click.Context) -> str:
        return overview()


def _show_version(ctx: click.Context, given: bool) -> None:
    if given:
        from benchgraph.harness.machine import version_of

        click.echo(f"benchgraph {version_of('benchgraph')}")
        ctx.exit()


@click.command(cls=_Command, context_settings={"ignore_unknown_options": True}, add_help_option=False)
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=lambda ctx, _, given: _show_version(ctx, given))
@click.pass_context
def main(ctx: click.Context, words: tuple[str, ...]) -> None:
    """Run oneDNN Graph dumps through a graph compiler: check the results, measure the speed."""
    if not words:
        raise click.exceptions.NoArgsIsHelpError(ctx)
    print_any()
    ctx.with_resource(enduring("stderr"))
    ctx.with_resource(remarks_sent_to(warn))
    try:
        text = requested_help(words)
    except UsageError as bad:
        ctx.exit(_refused(bad))
    if text is not None:
        click.echo(text)
        ctx.exit()
    if words[0] == "report":
        from benchgraph.commands.former_names import words_of_report

        words = ("render", *words_of_report(words[1:]))
    if words[0] not in COMMANDS and not words[0].startswith("-") and (near := did_you_mean(words[0], COMMANDS)):
        ctx.exit(_refused(UsageError("no such command", where=words[0], fix=near)))
    use_one_thread()
    try:
        if stages := config().print_after:
            from benchgraph.options.policy import need_stages

            need_stages(stages)
    except BenchgraphError as bad:
        ctx.exit(_refused(bad, ExitCode.refused))
    for note in unknown():
        warn(note)
    try:
        if words[0] in COMMANDS:
            _need_bare_flags(*words)
    except UsageError as bad:
        ctx.exit(_refused(bad))
    if words[0] in ANSWERS:
        ctx.exit(_answer(words[0], list(words[1:]), ctx.obj))
    if words[0] in MEASURE:
        ctx.exit(_measure(*words, bench=_bench(ctx.obj)))
    if words[0] == "fuzz":
        ctx.exit(_fuzz(words[1:], _bench(ctx.obj)))
    try:
        line = parse(list(words))
        if not line.planned:
            raise UsageError("nothing to run", fix=f"add {line.case}")
        jobs = _workers(line)
        _need_resources(line, ctx.obj)
        need_outputs(line.globals, {p.file for p in line.problems})
    except BenchgraphError as bad:
        ctx.exit(_refused(bad, ExitCode.refused))
    for note in line.notes:
        warn(note)
    with interruptible():
        code = _run(line, _bench(ctx.obj), jobs).code
    ctx.exit(code)


def _run(line: CommandLine, bench: Bench, jobs: int) -> RunOutcome:
    """Run the cases here, or on the cluster that the line names."""
    if not line.globals.cluster:
        return run_line(line, bench, jobs)
    from benchgraph.fleet import fleet

    try:
        with fleet(line, bench, log=warn if line.globals.verbose else None) as elsewhere:
            return run_line(line, bench, jobs, elsewhere)
    except BenchgraphError as bad:
        return RunOutcome(_refused(bad, ExitCode.refused))


def _refused(bad: BenchgraphError, code: ExitCode = ExitCode.failed) -> int:
    """Print the error. Returns the exit code: `code`, but `refused` for words that cannot be parsed."""
    option = bad.where.rpartition(" ")[2] if isinstance(bad, UnknownOption) else ""
    if owners := [f"benchgraph {name}" for name, command in COMMANDS.items() if option in command.names]:
        bad = UsageError(bad.what, where=bad.where, fix=f"it is one of {', '.join(owners)}")
    warn(str(bad))
    return ExitCode.refused if isinstance(bad, UsageError) else code


def _need_bare_flags(command: str, *words: str) -> None:
    """Raise UsageError for a value of an option of the command that takes none."""
    flags = {form for form, _ in COMMANDS[command].options if form.startswith("--") and " " not in form}
    for word in words:
        option, has_value, value = word.partition("=")
        if has_value and option in flags:
            raise UsageError(f"{option} takes no value, and '{value}' is one", where=command, fix=f"write '{option}'")


def _answer(command: str, words: list[str], given: Bench | None) -> int:
    """Print a command's output. Returns the exit code."""
    module, _, name = ANSWERS[command].partition(".")
    function = getattr(import_module(f"benchgraph.commands.{module}"), name)
    try:
        answer = function(words, _bench(given)) if command in NEED_BENCH else function(words)
    except BenchgraphError as bad:
        return _refused(bad, ExitCode.refused if command in LOOK_BACK else ExitCode.failed)
    text, code = (answer, ExitCode.ok) if isinstance(answer, str) else answer
    click.echo(text)
    return code


def _need_resources(line: CommandLine, given: Bench | None) -> None:
    """Raise BenchgraphError unless the instruction sets, tuning file, streams and libraries of the cases are available; on a cluster its
    workers say so.
    """
    if line.globals.cluster or line.globals.where:
        from benchgraph.fleet import need_cluster_options

        need_cluster_options(line)
        return
    from benchgraph.harness.bench import need_isas, need_libraries, need_tuning

    need_isas(line.problems)
    need_tuning(line.problems)
    if all(p.globals.num_streams != Globals().num_streams for p in line.problems):  # otherwise one of them can be measured
        from benchgraph.harness.bench import need_streams

        need_streams(line.problems)
    need_libraries([p for p in line.problems if p.globals.library != Globals().library], _bench(given))


def _workers(line: CommandLine) -> int:
    from benchgraph.harness.isolate import workers_of

    return workers_of(line) if not line.globals.cluster else 0


def _measure(command: str, *words: str, bench: Bench) -> int:
    """A command that measures and reports by itself. Returns the exit code."""
    run = import_module(f"benchgraph.commands.{command}").run
    try:
        with interruptible():
            return int(run(list(words), bench, click.echo, warn))
    except BenchgraphError as bad:
        return _refused(bad)
    except KeyboardInterrupt as by:
        warn(interruption_text(by))
        return code_of(by)


def _fuzz(words: tuple[str, ...], bench: Bench) -> int:
    """Run random graphs, then shrink those that failed. Returns the exit code."""
    from benchgraph.commands.fuzz import parse_request, plan, shrink_all

    try:
        request = parse_request(words)
        line = plan(request)
        jobs = _workers(line)
        _need_resources(line, bench)
        need_outputs(line.globals)
        if request.tries:
            need_folder(Path(request.output), f"fuzz: --output={request.output}")
    except BenchgraphError as bad:
        return _refused(bad, ExitCode.refused)
    with interruptible():
        ran = _run(line, bench, jobs)
        try:
            with kept_apart(line.globals):
                for text in shrink_all(request, line.problems, ran.failures, bench):
                    click.echo(text)
        except KeyboardInterrupt as by:
            return code_of(by)
    return ran.code


def _bench(given: Bench | None) -> Bench:
    from benchgraph.harness.bench import Bench

    return given or Bench()
