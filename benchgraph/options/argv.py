"""The command line as a state machine, as in benchdnn: options set state, and each --case runs with the present state.

    --graph --mb=1,2 --case=a.json --mb=4 --case=b.json        three problems: a at batch 1, a at batch 2, b at batch 4
    --matmul --dt=f32,bf16 2x3:3x4                             two problems: a driver of problem descriptors needs no --case
    --graph --case=a.json --mode=P                             one problem, in mode P: a global option may follow the case

Options are --name=value or --name value; an empty value restores the default (but on the command line, where
Knob.needs_value forbids it), also as one of several alternatives. All words are
parsed before the first case runs, so a misspelt option in the last line of a batch file is reported at once. No option is ignored
silently:

- A global option after the last case applies to every case that had no value of it before.
- One that says how the run is done, not what a case is (`Knob.repro` is false: --jobs, --report, --match ...) applies to all cases
  wherever it stands on the command line.
- A driver's option with no case after it is an error; after a command such as `explain` it applies to all cases, as a global one does.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any

from benchgraph.core.errors import InvalidArguments, ParseError, UnknownOption, UsageError, did_you_mean
from benchgraph.core.files import is_file, real
from benchgraph.core.remarks import remark
from benchgraph.options.batch import Lookup, Word, content, drivers_with, tokenize
from benchgraph.options.knobs import INERT, Globals, Knob, knobs_of
from benchgraph.options.matching import matches
from benchgraph.options.parsers import shell_word, text
from benchgraph.options.plugins import contradicts, driver_option, load_driver, load_report, names
from benchgraph.options.problem import TRIGGER, Driver, Problem
from benchgraph.results.mode import Mode
from benchgraph.results.result import Shard

CONTROLS = ("--driver", "--batch", "--reset")
MATCH = "--match"
CASE_FILES = {".json": "graph", ".onnx": "model", ".pt2": "model"}  # suffix -> the driver whose cases such files are


@dataclass(frozen=True)
class CommandLine:
    """The parsed command line.

    problems: those that --match and --shard select out of `planned`. globals: the global state at the end (reports, summary, verbosity: of
    the whole run). notes: remarks on options without effect. case: how to name a case for the last driver. shard: None where --shard
    leaves nothing out.
    """

    problems: tuple[Problem, ...]
    globals: Globals
    planned: int = 0
    notes: tuple[str, ...] = ()
    case: str = f"{TRIGGER} FILE"
    shard: Shard | None = None


def parse(words: Sequence[str], *, default: str = "", command: str = "") -> CommandLine:
    """Parse all words. Raises UsageError for words that cannot be parsed, for a batch file that cannot be read, and where --match and
    --shard leave no case.

    default: the driver if none is named, for the words after a command; the driver's options after the last case then apply to all cases.
    command: whose words these are, for messages.
    """
    state = _State(default, command)
    state.feed([Word(w) for w in words], ())
    settings = Globals(**{name: values[0] for name, values in state.globals.items()})
    planned, problems, left = 0, list[Problem](), list[Problem]()  # left: to other shards
    for pending in state.pending_cases():
        expanded = _expanded(pending, planned)
        planned += len(expanded)
        for p in expanded:
            part, parts = p.globals.shard
            is_ours = p.index % parts == part - 1
            if (is_ours or settings.shard != Globals().shard) and _matches(p, pending.match):
                (problems if is_ours else left).append(p)
    if planned and not problems:
        raise UsageError(f"--match and --shard leave none of {planned} cases", fix="widen them")
    return CommandLine(tuple(problems), settings, planned, tuple(state.notes.values()), state.case, _shard(settings, problems, left))


State = dict[str, tuple[Any, ...]]  # field of a knob set -> alternatives: one, unless the knob is a product axis


@dataclass(frozen=True)
class _PendingCase:
    """A case with the state at its place. match: the filter of batch files, beside the command line's own --match."""

    driver: Driver
    option: Word
    file: Path | None
    unusable: InvalidArguments | None
    globals: State
    knobs: State
    match: str


@dataclass
class _State:
    """The state of the parser.

    late_globals, late_knobs: names of global and driver knobs set since the last case. run_wide: global knobs that apply to the whole run.
    unused: options that no case has used yet.
    """

    default: str = ""
    command: str = ""
    driver: Driver | None = None
    globals: State = field(default_factory=dict)
    knobs: State = field(default_factory=dict)
    match: str = ""
    lookup: Lookup = field(default_factory=Lookup)
    cases: list[_PendingCase] = field(default_factory=list)
    notes: dict[str, str] = field(default_factory=dict)
    run_wide: set[str] = field(default_factory=set)
    late_globals: set[str] = field(default_factory=set)
    late_knobs: set[str] = field(default_factory=set)
    unused: dict[str, Word] = field(default_factory=dict)

    @property
    def _program(self) -> str:
        return f"benchgraph {self.command}".strip()

    @property
    def case(self) -> str:
        """How a case is written for the present driver, for error messages."""
        if self.driver is None or self.driver.reads_files:
            return f"{TRIGGER} FILE"
        return f"a descriptor, as {self.driver.example}"

    def pending_cases(self) -> list[_PendingCase]:
        """The cases with all options that apply to them. Raises UsageError for options that no case follows."""
        if self.default:
            self.unused = {option: word for option, word in self.unused.items() if option not in self._local}
        if self.cases and self.unused:
            first, *others = self.unused.values()
            what = "no case stands behind it" + "".join(f", nor behind {word.text}" for word in others)
            raise UsageError(what, where=_where(first), fix="move it in front of the case: a case has the options before it")
        shared = {name: self.globals[name] for name in self.run_wide | self.late_globals}
        own = {name: self.knobs[name] for name in self.late_knobs if self.default and name in self.knobs}
        return [replace(c, globals=shared | c.globals, knobs=own | c.knobs if c.driver is self.driver else c.knobs) for c in self.cases]

    def feed(self, words: list[Word], nest: tuple[Path, ...]) -> None:
        """Parse the words of one source. nest: the batch files that include it."""
        rest = deque(words)
        while rest:
            word = rest.popleft()
            option, given, value = word.text.partition("=")
            option = option.replace("_", "-") if option.startswith("--") else option
            option = self.driver.aliases.get(option, option) if self.driver else option
            if option == "--reset" and not given:
                self.knobs, self.match = {}, ""
            elif option == "-v" or (option.startswith("-v") and option[2:].isdecimal()):
                self._set_global(knobs_of(Globals)["--verbose"], option[2:] or "1", word)
            elif option in ("--concise", "-c") and not given:
                self._set(Word("--concise", word.where), "true", nest)
            elif not word.text.startswith("-") and self.driver is not None and not self.driver.reads_files:  # a descriptor
                self._set(Word(TRIGGER, word.where), word.text, nest)
            elif (driver := driver_option(option)) and not given:
                self._choose(driver, word)
            else:
                self._check_known(option, word)
                self._set(Word(option, word.where), value if given else self._next_value(word, rest), nest)

    @property
    def _local(self) -> dict[str, Knob]:
        return knobs_of(self.driver.knobs) if self.driver else {}

    @property
    def _inert(self) -> dict[str, str]:
        return INERT | dict(self.driver.inert if self.driver else {})

    def _check_known(self, option: str, word: Word) -> None:
        """Raise UsageError unless the option exists in the present state."""
        if self.default and not self.driver and self._is_of_driver(option):
            self._choose(self.default, word)
        local = self._local
        if option in CONTROLS or option in knobs_of(Globals) or option in local or option in self._inert:
            return
        where = _where(Word(option, word.where))
        if not word.text:
            raise UsageError("an empty word, as of a variable that is not set", where=word.where, fix="leave it out")
        if not option.startswith("-"):
            case = shell_word(f"{TRIGGER}={word.text}")
            is_complete, quoted = self.driver or self.command or word.where, case if case.endswith("'") else f"'{case}'"
            fix = f"did you mean {quoted}?" if is_complete else f"write: benchgraph --driver graph {case}"
            raise UsageError("a word that is not an option", where=where, fix=fix)
        if self._is_of_driver(option) and not self.driver:
            raise UsageError("this option belongs to a driver", where=where, fix="name the driver first, as in '--driver graph'")
        if driver_option(option):
            raise UsageError("a driver takes no value", where=where, fix=f"write '{option} --case=FILE'")
        if owners := [f"--{d}" for d in names("drivers") if self.driver and option in knobs_of(load_driver(d).knobs)]:
            raise UsageError("unknown option", where=where, fix=f"it is one of {', '.join(owners)}")
        drivers = [f"--{d}" for d in names("drivers")]
        near = did_you_mean(option, [*CONTROLS, *knobs_of(Globals), *local, *self._inert, *drivers, "--help", "--version"])
        raise UnknownOption("unknown option", where=where, fix=near or f"see '{self._program} --help'")

    def _is_of_driver(self, option: str) -> bool:
        return any(option in knobs_of(load_driver(d).knobs) for d in names("drivers"))

    def _choose(self, name: str, word: Word) -> None:
        try:
            self.driver = load_driver(name)
        except InvalidArguments as bad:
            raise UsageError(bad.what, where=word.where, fix=bad.fix) from bad
        self.knobs, self.match, self.late_knobs = {}, "", set()
        self.unused["--driver"] = Word(f"--{name}", word.where)

    def _set(self, option: Word, value: str, nest: tuple[Path, ...]) -> None:
        if option.text in (TRIGGER, "--driver", "--batch") and not value:
            raise UsageError("a value is missing", where=_where(option), fix=f"write '{option.text}=VALUE'")
        if option.text == "--reset":
            raise UsageError("it takes no value", where=_where(option), fix="write '--reset'")
        if option.text == "--driver":
            self._choose(value, option)
        elif option.text == "--batch":
            self._batch(value, option, nest)
        elif self.driver and option.text == TRIGGER:
            self._run(value, option)
        elif option.text in self._local:
            knob = self._local[option.text]
            self.knobs[knob.name] = _values(knob, value, option)
            self.late_knobs.add(knob.name)
            self._mark_unused(value, option)
        elif option.text in self._inert:
            self.notes[option.text] = f"{option.text} changes nothing: {self._inert[option.text]}"
        elif option.text == MATCH and option.where:  # as in benchdnn, it filters the cases after it, up to --reset
            (self.match,) = _values(knobs_of(Globals)[MATCH], value, option)
            self._mark_unused(value, option)
        else:
            self._set_global(knobs_of(Globals)[option.text], value, option)

    def _mark_unused(self, value: str, option: Word) -> None:
        """Record that the option needs a case after it. One that restores a default does not."""
        if value:
            self.unused[option.text] = Word(f"{option.text}={value}", option.where)
        else:
            self.unused.pop(option.text, None)

    def _set_global(self, knob: Knob, value: str, option: Word) -> None:
        (mode,) = self.globals.get("mode", (Mode.correctness,))
        if mode in knob.fixed_by:
            fix = "use --mode=P with it"
            raise UsageError(f"mode {mode.value} settles this itself", where=_where(option), fix=fix)
        new = _values(knob, value, option)
        if value and any(isinstance(number, float) and number != float(value) for number in new):  # clamped by its parser
            remark(f"{_where(option)}={value}: out of range, {text(new)} is taken")
        if knob.name == "report" and value:
            ((name, file),) = new[0]
            _check_report(name, file, option)
        if knob.merge and value and knob.name in self.globals:
            new = (knob.merge(self.globals[knob.name][0], new[0]),)
        self.globals[knob.name] = new
        self.late_globals.add(knob.name)
        if not knob.repro and not option.where:
            self.run_wide.add(knob.name)

    def _next_value(self, word: Word, rest: deque[Word]) -> str:
        """The value of `--name value`. Raises UsageError if the next word is an option or there is none."""
        knob = (knobs_of(Globals) | self._local).get(word.text)
        is_value = bool(rest) and not rest[0].text.startswith("--")
        if knob is not None and knob.flag and not (is_value and rest[0].text.lower() in ("true", "false", "1", "0")):
            return "true"
        if not is_value:
            raise UsageError("a value is missing", where=_where(word), fix=f"write '{word.text}=VALUE'")
        return rest.popleft().text

    def _batch(self, name: str, option: Word, nest: tuple[Path, ...]) -> None:
        """Parse a batch file. If no driver is chosen, the packaged inputs that contain the file determine it."""
        if not self.driver and len(owners := drivers_with(name, names("drivers"))) == 1:
            self._choose(owners[0], option)
        elif not self.driver and self.default:
            self._choose(self.default, option)
        try:
            path, _ = self.lookup.find(name, self.driver.folder if self.driver else "")
        except InvalidArguments as bad:
            refused = UsageError(bad.what, where=bad.where, fix=bad.fix)
            raise refused.inside(option.where) if option.where else refused from None
        if real(path) in nest:
            chain = " -> ".join(p.name for p in (*nest, path))
            raise UsageError(f"batch files include each other: {chain}", where=option.where or f"--batch={name}")
        try:
            words = list(tokenize(content(path), name))
        except ParseError as bad:
            raise UsageError(bad.what, where=bad.where, fix=bad.fix) from bad
        self.feed(words, (*nest, real(path)))

    def _run(self, text: str, option: Word) -> None:
        """Add a case. One that cannot be found or read becomes a problem too, which fails when it runs; the others still run."""
        assert self.driver is not None
        case: Any = text
        file, unusable = None, None
        try:
            if self.driver.reads_files:
                file, case = self.lookup.find(text, self.driver.folder)
            else:
                case = knobs_of(self.driver.knobs)[TRIGGER].parse(text)
        except InvalidArguments as bad:
            unusable = bad
        except ValueError as bad:
            what, _, fix = str(bad).partition("; ")
            unusable = self._misplaced_file(text) or InvalidArguments(what, where=text, fix=fix)
        self.knobs["case"] = (case,)
        self.cases.append(_PendingCase(self.driver, option, file, unusable, dict(self.globals), dict(self.knobs), self.match))
        self.late_globals, self.late_knobs, self.unused = set(), set(), {}

    def _misplaced_file(self, text: str) -> InvalidArguments | None:
        """The error for a file's name where a problem descriptor is due; None for other words."""
        assert self.driver is not None
        name, owner = self.driver.name, CASE_FILES.get(Path(text).suffix.lower())
        if owner is None and not is_file(Path(text)):
            return None
        word = f"{TRIGGER}={text}" if owner else f"--batch={text}"
        fix = f"write: {self._program} --{owner or name} {shell_word(word)}"
        return InvalidArguments(f"a file, and the cases of --{name} are descriptors, as {self.driver.example}", where=text, fix=fix)


def _expanded(pending: _PendingCase, first: int) -> list[Problem]:
    """One problem per combination of alternatives; the global knobs vary slowest, then the driver's in the order of its loops.

    first: the index of the first problem. Raises UsageError for options that exclude each other.
    """
    problems, batch = list[Problem](), Path(pending.option.where.rpartition(":")[0]).name
    for globals_ in _product(Globals, pending.globals):
        if globals_.mode is Mode.correctness and globals_.has_no_reference:
            fix = "leave out --mode-modifier=M, or choose a mode other than C"
            raise UsageError("mode C compares with a reference, which modifier M leaves out", where=_where(pending.option), fix=fix)
        for knobs in _product(pending.driver.knobs, pending.knobs, pending.driver.loops):
            problems.append(Problem(first + len(problems), pending.driver, globals_, knobs, pending.file, pending.unusable, batch))
    return problems


def _shard(settings: Globals, ours: Sequence[Problem], left: Sequence[Problem]) -> Shard | None:
    """Which part of all chosen cases is ours. None if it is all of them, or --shard is not the same for all cases."""
    whole = sorted((*ours, *left), key=lambda p: p.index)
    if settings.shard == Globals().shard or any(p.globals.shard != settings.shard for p in whole):
        return None
    lines = "\n".join(f"{p.index} {p.repro}" for p in whole)
    return Shard(*settings.shard, len(whole), hashlib.sha256(lines.encode(errors="surrogateescape")).hexdigest()[:16])


def _matches(problem: Problem, match: str) -> bool:
    """Whether --match selects a problem. match: the filter of batch files, applied besides the command line's."""
    try:
        return all(matches(each, problem.repro) for each in (problem.globals.match, match) if each)
    except InvalidArguments as bad:
        raise UsageError(bad.what, where=MATCH, fix=bad.fix) from bad


def _product(knobs: type, state: State, loops: tuple[str, ...] = ()) -> list[Any]:
    """A knob set per combination of alternatives. loops: the fields that vary slowest; the others follow in order of declaration."""
    names = [k.name for k in knobs_of(knobs).values()]
    axes = [name for name in (*loops, *(n for n in names if n not in loops)) if name in state]
    return [knobs(**dict(zip(axes, choice, strict=True))) for choice in product(*(state[name] for name in axes))]


def _values(knob: Knob, value: str, option: Word) -> tuple[Any, ...]:
    """The alternatives that a value lists. Raises UsageError."""
    if not value:
        if knob.needs_value and not option.where:
            fix = f"give {knob.value}, or leave the option out"
            raise UsageError("a value is missing, as of a variable that is not set", where=_where(option), fix=fix)
        return (knob.default,)
    try:
        return tuple(knob.parse(part) if part else knob.default for part in (value.split(",") if knob.product else [value]))
    except ValueError as bad:
        raise UsageError(f"bad value '{value}'", where=_where(option), fix=str(bad) or f"give {knob.value}") from bad


def _check_report(name: str, file: str, option: Word) -> None:
    """Raise UsageError unless the report exists and the file's suffix is not that of another report."""
    try:
        load_report(name)
    except InvalidArguments as bad:
        raise UsageError(bad.what, where=_where(option), fix=bad.fix) from bad
    if implied := contradicts(name, file):
        what = f"the file's name says {implied}, and the report is {name}"
        raise UsageError(what, where=f"{_where(option)}={name}:{file}", fix=f"write {implied}:{file}, or name the file otherwise")


def _where(option: Word) -> str:
    return f"{option.where}: {option.text}" if option.where else option.text
