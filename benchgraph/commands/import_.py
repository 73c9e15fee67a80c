"""`benchgraph import FILE -o DIR`: a verbose log as a batch file and a table of where its time went, or a model as a graph with data."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchgraph.core.errors import BenchgraphError, UsageError, within
from benchgraph.core.files import read_text
from benchgraph.core.formats import counted, size
from benchgraph.core.printable import printable, shortened
from benchgraph.graph import Graph
from benchgraph.graph.model import Model
from benchgraph.harness.command_words import need_no_options, own_options, parsed_value
from benchgraph.harness.outputs import need_file
from benchgraph.harness.partitioning import traffic
from benchgraph.importers.batch_file import batch_file, reasons
from benchgraph.importers.graph_lines import Dumps
from benchgraph.importers.log_cases import Case, Work, cases_of, line_beside_files
from benchgraph.importers.logged_times import NO_REPLAY, Replay, logged_times
from benchgraph.importers.model import MODEL_SUFFIXES
from benchgraph.importers.model_files import write_model
from benchgraph.importers.verbose_file import Log, read_log
from benchgraph.measure.arithmetic import arithmetic
from benchgraph.measure.layers import flops
from benchgraph.options.argv import parse as parse_words
from benchgraph.options.batch import tokenize
from benchgraph.options.knobs import knobs_of
from benchgraph.options.plugins import load_driver
from benchgraph.options.problem import Driver
from benchgraph.present.progress import progress_line
from benchgraph.results.exit_codes import ExitCode
from benchgraph.results.json_report import parse, unwritable, write

SIZES = {"--mb": "mb", "--in-shapes": "in_shapes"}  # of a model, and the knobs of its driver
OPTIONS = ("-o", "--output", "--replay", *SIZES)
BATCH, TIMES = "batch", "times.txt"
GRAPH = "graph.json"
SHOWN = 12  # rows of a table on the terminal


@dataclass(frozen=True)
class Request:
    """sizes: values of SIZES, as given."""

    file: Path
    folder: Path
    replay: str = ""
    sizes: Mapping[str, str] = field(default_factory=dict)


def run(given: Sequence[str]) -> tuple[str, ExitCode]:
    """Write the folder. Returns the summary and the exit code: 1 for a log without a case.

    Raises UsageError for words, BenchgraphError for files that cannot be read or written.
    """
    request = read(given)
    if request.file.suffix.lower() in MODEL_SUFFIXES:
        return _model(request), ExitCode.ok
    return _log(request)


def _log(request: Request) -> tuple[str, ExitCode]:
    with progress_line():
        log = read_log(request.file)
        if request.sizes:
            raise UsageError("a log has the sizes of what it ran", where="import: --mb, --in-shapes", fix="leave them out")
        replay = _replay(request.replay) if request.replay else NO_REPLAY
        _need_files(request, BATCH, TIMES)
        cases = cases_of(log, Dumps(request.file.parent), work_of)
    for case in cases:
        if case.file:
            _copy(case.file, request.folder)
    write(str(request.folder / BATCH), batch_file(request.file.name, log, cases))
    write(str(request.folder / TIMES), logged_times(log, cases, replay) + "\n")
    has_case = any(not case.error for case in cases)
    text = "\n\n".join([logged_times(log, cases, replay, SHOWN), _summary(request, log, cases)])
    return text, ExitCode.ok if has_case else ExitCode.failed


def _need_files(request: Request, *names: str) -> None:
    """Raise UsageError unless files of these names can be written to the folder."""
    for name in names:
        need_file(request.folder / name, f"import: --output={request.folder}", [request.file])


def _model(request: Request) -> str:
    """A graph, the data of its constants, and a batch file that runs them."""
    if request.replay:
        raise UsageError("a model has no times", where="import: --replay", fix="leave it out")
    with progress_line():
        driver = load_driver("model")
        assert driver.model is not None
        model = driver.model(driver.knobs(**_knobs(driver, request.sizes)), request.file)
        _need_files(request, GRAPH, BATCH)
    try:
        write_model(model, request.folder / GRAPH)
    except OSError as bad:
        raise unwritable(bad, str(request.folder)) from bad
    write(str(request.folder / BATCH), f"# From {printable(request.file.name)} by `benchgraph import`\n--model --case={GRAPH}\n")
    nbytes = sum(array.nbytes for array in model.data.values())
    made = f"{counted(len(model.graph.ops), 'op')}, {counted(len(model.data), 'constant')} of {size(nbytes)}"
    ports = [f"  {name}: {_port(model, id)}" for name, id in (*model.inputs.items(), *model.outputs.items())]
    batch = request.folder / BATCH
    return "\n".join([f"{request.file}: {made}", *map(printable, [*ports[:SHOWN], *_fallen(model)]), f"next: benchgraph --batch={batch}"])


def _port(model: Model, id: int) -> str:
    return "left out, since nothing reads it" if id in model.unread else f"tensor {id}"


def _fallen(model: Model) -> Iterator[str]:
    """What numpy will execute, by kind, with a reason for each."""
    kinds = Counter(f.kind for f in model.fallen)
    if kinds:
        yield f"{counted(kinds.total(), 'node')} of it numpy executes, between the partitions:"
    for kind, count in kinds.most_common(SHOWN):
        reasons = list(dict.fromkeys(f.why for f in model.fallen if f.kind == kind))
        yield f"  {kind} ({count}): {shortened(reasons[0])}" + (f", and {len(reasons) - 1} more reasons" if len(reasons) > 1 else "")


def read(given: Sequence[str]) -> Request:
    """Raises UsageError."""
    rest = list[str]()
    own = {option.replace("--output", "-o"): value for option, value in own_options("import", OPTIONS, given, rest)}
    need_no_options("import", rest, OPTIONS)
    if len(rest) != 1:
        raise UsageError(f"{len(rest)} files are named", where="import", fix="name one log or model")
    if "-o" not in own:
        raise UsageError("no folder is named", where="import", fix="add -o DIR, where the batch file goes")
    sizes = {option: own[option] for option in SIZES if option in own}
    return Request(Path(rest[0]), Path(own["-o"]), own.get("--replay", ""), sizes)


def _knobs(driver: Driver, given: Mapping[str, str]) -> dict[str, Any]:
    """The knobs that options set, one value each. Raises UsageError."""
    parsers, found = {k.name: k.parse for k in knobs_of(driver.knobs).values()}, dict[str, Any]()
    for option, value in given.items():
        if "," in value:
            raise UsageError(f"several values '{value}'", where=f"import: {option}", fix="give one: each makes another model")
        found[SIZES[option]] = parsed_value("import", option, value, parsers[SIZES[option]])
    return found


def work_of(graph: Graph) -> Work:
    return Work(flops(graph.ops), traffic(graph), arithmetic(graph))


def _replay(file: str) -> Replay:
    """The times of a JSON report in mode P, by the line of the case. Raises BenchgraphError."""
    try:
        results = parse(read_text(Path(file)))
    except OSError as bad:
        raise UsageError(f"cannot read it: {bad.strerror}", where=f"import: --replay={file}", fix="name a JSON report") from bad
    except BenchgraphError as bad:
        raise bad.inside(f"import: --replay={file}") from bad
    timed = [case for case in results.cases if case.result.timings]
    if not timed:
        raise UsageError("it has no times", where=f"import: --replay={file}", fix="run the batch with --mode=P --report=json:FILE")
    seconds = dict[str, float]()
    for case in timed:
        with within(f"import: --replay={file}"):
            words = [word.text for word in tokenize(case.repro, "a repro line")]
            seconds |= {line_beside_files(p): case.result.timings[0].timing.median_s for p in parse_words(words).problems}
    first, *others = results.by_kind
    return Replay(None if others else first.machine, seconds)  # several kinds of machines have no common roof


def _copy(file: Path, folder: Path) -> None:
    """A dump into the folder, where the batch file names it."""
    target = folder / file.name
    try:
        if not (target.exists() and target.samefile(file)):
            shutil.copyfile(file, target)
    except OSError as bad:
        raise unwritable(bad, str(target)) from bad


def _summary(request: Request, log: Log, cases: Sequence[Case]) -> str:
    """How many lines became what, and why others did not."""
    good = [case for case in cases if not case.error]
    lines = [f"{request.file}: {counted(log.lines, 'line')}, of which {log.others} are of other programs and {log.remarks} are remarks"]
    lines += [f"  {counted(count, 'line')} not expressed: {reason}" for reason, count in reasons(cases).items()]
    lines += [f"  line {broken.line} cannot be read: {broken.reason}" for broken in log.broken[:SHOWN]]
    if log.broken_count > SHOWN:
        lines.append(f"  {log.broken_count - SHOWN} more lines cannot be read")
    times = request.folder / TIMES
    lines.append(f"{counted(len(good), 'case')} in {request.folder / BATCH}, all times in {times}")
    if good:
        lines.append(f"next: benchgraph --mode=P --batch={request.folder / BATCH}")
    return "\n".join(lines)
