"""What a log becomes: cases in the order in which they first ran, and what cannot be one, with the reason; each with its times.

Every line is read as the command line reads it, and its graph is built once: so what a batch file holds runs, and a driver that is not
there yet, an option that it lacks or a problem that no op expresses is a reason in the batch file.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from benchgraph.core.errors import BenchgraphError
from benchgraph.graph.ir import Graph
from benchgraph.importers.descriptors import Event, Inexpressible
from benchgraph.importers.graph_lines import Dumps
from benchgraph.importers.primitives import words_of
from benchgraph.importers.verbose_file import Log, Logged
from benchgraph.importers.verbose_line import GraphFields, PrimitiveFields
from benchgraph.options.argv import parse
from benchgraph.options.batch import tokenize
from benchgraph.options.parsers import shell_word, text
from benchgraph.options.plugins import names
from benchgraph.options.problem import Problem


@dataclass(frozen=True)
class Work:
    """What a case computes and moves at least: operations, bytes, and the arithmetic of its products."""

    flops: int
    bytes: int
    arithmetic: str


Measure = Callable[[Graph], Work]


@dataclass(frozen=True)
class Case:
    """A line of the batch file, or with an error what would have been one. logged: the lines of the log that mean it.

    file: the dump that the line needs beside the batch file.
    """

    line: str
    logged: tuple[Logged, ...]
    error: BenchgraphError | None = None
    work: Work | None = None
    file: Path | None = None


@dataclass
class _Cases:
    measure: Measure
    dumps: Dumps
    found: dict[str, Case] = field(default_factory=dict)

    def add(self, case: Case) -> None:
        """Different layouts and implementations, and repro lines, may be one case."""
        if known := self.found.get(case.line):
            case = replace(known, logged=(*known.logged, *case.logged))
        self.found[case.line] = case

    def add_logged(self, one: Logged) -> None:
        try:
            if isinstance(one.fields, PrimitiveFields):
                self._add_line(words_of(Event(one.fields)), one)
            elif isinstance(one.fields, GraphFields):
                file = self.dumps.of(one.fields)
                self._add_line(["--graph", "--expected-n-partitions=0", f"--case={file}"], one, file)
            else:
                self._add_line([word.text for word in tokenize(one.words, "the repro line")], one)
        except BenchgraphError as bad:
            self.add(Case(one.fields.text if one.fields else one.words, (one,), bad))

    def _add_line(self, words: list[str], one: Logged, file: Path | None = None) -> None:
        """A repro line may stand for several cases. Raises BenchgraphError for words that are not understood."""
        driver = words[0].removeprefix("--")
        if isinstance(one.fields, PrimitiveFields) and driver not in names("drivers"):
            self.add(Case(_line(words), (one,), Inexpressible(f"there is no driver {driver}")))
            return
        try:
            problems = parse(words).problems
        except BenchgraphError as bad:
            self.add(Case(_line(words), (one,), bad))
            return
        for problem in problems:
            self._add_problem(problem, one, file)

    def _add_problem(self, problem: Problem, one: Logged, file: Path | None) -> None:
        line = line_beside_files(problem) if file else problem.description
        if line in self.found:
            self.add(Case(line, (one,)))
            return
        try:
            self.add(Case(line, (one,), None, self.measure(problem.graph()), file))
        except BenchgraphError as bad:
            self.add(Case(line, (one,), type(bad)(bad.what, where=bad.where.removeprefix(f"{text(problem.knobs.case)}: "), fix=bad.fix)))


def cases_of(log: Log, dumps: Dumps, measure: Measure) -> list[Case]:
    """The cases of a log. measure: what a graph computes and moves."""
    cases = _Cases(measure, dumps)
    for one in log.logged:
        cases.add_logged(one)
    return list(cases.found.values())


def line_beside_files(problem: Problem) -> str:
    """The line of a case without the folder of its file."""
    return replace(problem, knobs=replace(problem.knobs, case=problem.file.name)).description if problem.file else problem.description


def _line(words: list[str]) -> str:
    return " ".join(map(shell_word, words))
