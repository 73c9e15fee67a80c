"""`benchgraph bisect GOOD BAD`: how versions are made and judged are its own options, all others select one case as in a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchgraph.analysis.ab.bisection import Answer
from benchgraph.analysis.ab.comparison import Side
from benchgraph.analysis.ab.sequential import FEWEST
from benchgraph.analysis.inference.verdicts import ALPHA, THRESHOLD
from benchgraph.core.errors import BenchgraphError, UsageError
from benchgraph.core.formats import counted
from benchgraph.harness.ab.cases import cases, need_versions
from benchgraph.harness.ab.contest import Contest
from benchgraph.harness.ab.search import Bisection, Trial
from benchgraph.harness.ab.versions import Commit, Version, built_versions, commits, own_version, repository_of
from benchgraph.harness.bench import Bench
from benchgraph.harness.command_words import own_options, parsed_value
from benchgraph.harness.isolate import run_isolated
from benchgraph.options.library_name import LibraryName
from benchgraph.options.parsers import positive, share
from benchgraph.present.progress import progress_line
from benchgraph.results.exit_codes import ExitCode

OPTIONS = ("--build", "--repository", "--library", "--threshold", "--max-launches")
BUDGET_MS = 2000  # of a launch: about as long as its processes take to start
MOST = 20  # launches of one candidate


@dataclass
class Request:
    """commits: GOOD and BAD. build: a command, '' for commits of benchgraph. library: what it builds, its place relative to the repository.

    most: launches of one candidate. rest: the words that select the case.
    """

    commits: tuple[str, str]
    build: str = ""
    repository: str = ""
    library: LibraryName | None = None
    threshold: float = THRESHOLD
    most: int = MOST
    rest: list[str] = field(default_factory=list)


def read_words(given: Sequence[str]) -> Request:
    """GOOD and BAD are the first two words. Raises UsageError."""
    good, bad = ("" if word.startswith("-") else word for word in [*given, "", ""][:2])
    if not good or not bad:
        raise UsageError("GOOD and BAD are to come first", where="bisect", fix="write 'benchgraph bisect GOOD BAD --case=FILE'")
    request = Request((good, bad))
    for option, value in own_options("bisect", OPTIONS, given[2:], request.rest):
        if option == "--library":
            request.library = parsed_value("bisect", option, value, LibraryName.read)
        elif option == "--threshold":
            request.threshold = parsed_value("bisect", option, value, share)
        elif option == "--max-launches":
            request.most = parsed_value("bisect", option, value, positive)
        else:
            setattr(request, option.removeprefix("--"), value)
    if bool(request.build) != (request.library is not None) or (request.library is not None and not request.library.place):
        fix = "give both, as in --build='cmake --build build' --library=onednn:build/src/libdnnl.so, or none for commits of benchgraph"
        raise UsageError("--build makes the PLACE of --library", where="bisect", fix=fix)
    if request.build and not request.repository:
        raise UsageError("--build without a repository", where="bisect", fix="add --repository=DIR")
    if request.most < FEWEST:
        fix = f"give {FEWEST} or more"
        raise UsageError("too few to tell anything", where=f"bisect: --max-launches={request.most}", fix=fix)
    return request


def run(given: list[str], bench: Bench, say: Callable[[str], None], complain: Callable[[str], None]) -> int:
    """Find the first bad commit, telling each that is tried. Returns the exit code: 1 if none, or not one alone, was found.

    Raises UsageError for words that cannot be followed, and for a GOOD that cannot be made or loaded.
    """
    request = read_words(given)
    line = cases("bisect", request.rest, BUDGET_MS)
    if len(line.problems) != 1:
        raise UsageError(f"{len(line.problems)} cases", where="bisect", fix="name one, with one policy")
    repository = repository_of(request.repository, *request.commits)
    good, row = commits(repository, *request.commits)
    for note in line.notes:
        complain(note)
    with _versions(request, repository, good) as version, progress_line("commits", len(row).bit_length() + 1) as step:
        old = _usable(version, good, bench)
        need_versions("bisect", line.problems, (old, old), bench)
        say(f"{counted(len(row), 'commit')} after {good} ({good.subject})")

        def tell(trial: Trial) -> None:
            say(f"  {trial}")
            step()

        contest = Contest(old, old, bench, run=run_isolated)
        bisection = Bisection(line.problems[0], contest, version, request.threshold, request.most, tell)
        found = bisection.run(row)
    for text in _conclusion(bisection, found, row[-1]):
        say(text)
    return ExitCode.ok if len(found) == 1 else ExitCode.failed


def _usable(version: Version, good: Commit, bench: Bench) -> Side:
    """The version of GOOD, made and loaded. Raises UsageError."""
    try:
        side = version(good)
        bench.library(side.word)
    except BenchgraphError as bad:
        fix = f"{bad.fix}, or name another commit as GOOD" if bad.fix else "name another commit as GOOD"
        raise UsageError(f"GOOD cannot be used: {bad.what}", where=f"bisect: {good}", fix=fix, shown=bad.shown) from bad
    return side


@contextmanager
def _versions(request: Request, repository: Path, good: Commit) -> Iterator[Version]:
    if request.library is None:
        yield own_version(repository)
        return
    with built_versions(repository, request.build, request.library, good) as version:
        yield version


def _conclusion(bisection: Bisection, found: list[Commit], last: Commit) -> Iterator[str]:
    if not found:
        answer = bisection.trials[-1].answer
        yield f"{last} is not bad" if answer is Answer.good else f"{last} cannot be told from GOOD, or cannot be tried"
    elif len(found) == 1:
        evidence = next(t.evidence for t in bisection.trials if t.commit == found[0])
        yield f"the first bad commit is {found[0].hash}: {found[0].subject}"
        yield f"  {evidence}" + (f"; bad is more than {bisection.boundary:.3f} times as long as GOOD" if bisection.boundary else "")
    else:
        yield "the first bad commit is one of these; those before the last were skipped:"
        yield from (f"  {c.hash}: {c.subject}" for c in found)
    timed = f"; at most {ALPHA:.0%} chance of a wrong answer among them" if bisection.search.launches else ""
    yield bisection.summary + timed
