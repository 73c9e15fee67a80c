"""The command line as a state machine, as in benchdnn: options set state, and each --case runs with the state it finds.

    --graph --mb=1,2 --case=a.json --mb=4 --case=b.json        three problems: a at batch 1, a at batch 2, b at batch 4
    --matmul --dt=f32,bf16 2x3:3x4                             two problems: a driver of problem descriptors needs no --case

Options are --name=value or --name value; an empty value restores the default, and so does an empty one among alternatives. All words are
read before the first case runs, so a misspelt option in the last line of a batch file is known at once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from re import search
from typing import Any

from benchgraph.core.errors import InvalidArguments, did_you_mean
from benchgraph.harness.batch import Lookup, Word, drivers_with, tokenize
from benchgraph.harness.knobs import INERT, Globals, Knob, Mode, knobs_of
from benchgraph.harness.plugins import load_driver, load_report, names
from benchgraph.harness.problem import TRIGGER, Driver, Problem

CONTROLS = ("--driver", "--batch", "--reset")


class UsageError(InvalidArguments):
    """A command line nobody can run: an unknown option, a bad value. Exit code 2."""


@dataclass(frozen=True)
class CommandLine:
    """What the words mean.

    problems: those that --match and --shard leave of `planned`. globals: the global state at the end (reports, summary, verbosity count
    for the whole run). notes: what the words ask for in vain.
    """

    problems: tuple[Problem, ...]
    globals: Globals
    planned: int = 0
    notes: tuple[str, ...] = ()


def parse(words: Sequence[str]) -> CommandLine:
    """Read all words. Raises UsageError for what cannot be understood, InvalidArguments for a batch file that is not there."""
    state = _State()
    state.feed([Word(w) for w in words], ())
    settings = Globals(**{name: values[0] for name, values in state.globals.items()})
    return CommandLine(tuple(state.problems), settings, state.planned, tuple(state.notes.values()))


@dataclass
class _State:
    """The machine's memory. globals, knobs: field -> alternatives (one, unless the knob is a product axis)."""

    driver: Driver | None = None
    globals: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    knobs: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    lookup: Lookup = field(default_factory=Lookup)
    problems: list[Problem] = field(default_factory=list)
    planned: int = 0
    notes: dict[str, str] = field(default_factory=dict)

    def feed(self, words: list[Word], nest: tuple[Path, ...]) -> None:
        """Take the words of one source; nest: the batch files we are inside of."""
        rest = deque(words)
        while rest:
            word = rest.popleft()
            option, given, value = word.text.partition("=")
            option = option.replace("_", "-") if option.startswith("--") else option
            if option == "--reset":
                self.knobs = {}
            elif option == "-v" or (option.startswith("-v") and option[2:].isdecimal()):
                self.globals["verbose"] = (int(option[2:] or 1),)
            elif self._is_descriptor(word):
                self._set(Word(TRIGGER, word.where), word.text, nest)
            elif option.removeprefix("--") in names("drivers") and option.startswith("--") and not given:
                self._choose(option.removeprefix("--"), word)
            else:
                self._known(option, word)
                self._set(Word(option, word.where), value if given else self._next_value(word, rest), nest)

    @property
    def _local(self) -> dict[str, Knob]:
        return knobs_of(self.driver.knobs) if self.driver else {}

    def _is_descriptor(self, word: Word) -> bool:
        return not word.text.startswith("-") and self.driver is not None and not self.driver.reads_files

    def _known(self, option: str, word: Word) -> None:
        """Raise UsageError unless the option exists in the present state."""
        local = self._local
        if option in CONTROLS or option in knobs_of(Globals) or option in local or option in INERT:
            return
        where = _where(Word(option, word.where))
        if not option.startswith("-"):
            raise UsageError("a word that is not an option", where=where, fix=f"did you mean '--case={option}'?")
        if any(option in knobs_of(load_driver(d).knobs) for d in names("drivers")) and not self.driver:
            raise UsageError("this option belongs to a driver", where=where, fix="name the driver first, as in '--driver graph'")
        if option.removeprefix("--") in names("drivers"):
            raise UsageError("a driver takes no value", where=where, fix=f"write '{option} --case=FILE'")
        drivers = [f"--{d}" for d in names("drivers")]
        near = did_you_mean(option, [*CONTROLS, *knobs_of(Globals), *local, *INERT, *drivers, "--help", "--version"])
        raise UsageError("unknown option", where=where, fix=near or "see 'benchgraph --help'")

    def _choose(self, name: str, word: Word) -> None:
        try:
            self.driver = load_driver(name)
        except InvalidArguments as bad:
            raise UsageError(bad.what, where=word.where, fix=bad.fix) from bad
        self.knobs = {}

    def _set(self, option: Word, value: str, nest: tuple[Path, ...]) -> None:
        if option.text == "--driver":
            self._choose(value, option)
        elif option.text == "--batch":
            self._batch(value, option, nest)
        elif option.text == TRIGGER and not value:
            raise UsageError("a value is missing", where=_where(option), fix=f"write '{TRIGGER}=VALUE'")
        elif self.driver and option.text == TRIGGER:
            self._run(value, option)
        elif option.text in self._local:
            self.knobs[self._local[option.text].name] = _values(self._local[option.text], value, option)
        elif option.text in INERT:
            self.notes[option.text] = f"{option.text} changes nothing: {INERT[option.text]}"
        else:
            self._set_global(knobs_of(Globals)[option.text], value, option)

    def _set_global(self, knob: Knob, value: str, option: Word) -> None:
        (mode,) = self.globals.get("mode", (Mode.correctness,))
        if mode in knob.fixed_by:
            fix = "use --mode=P with it"
            raise UsageError(f"mode {mode.value} settles this itself", where=_where(option), fix=fix)
        new = _values(knob, value, option)
        if knob.name == "report" and value:
            _check_report(new[0][0][0], option)
        if knob.merge and value and knob.name in self.globals:
            new = (knob.merge(self.globals[knob.name][0], new[0]),)
        self.globals[knob.name] = new

    def _next_value(self, word: Word, rest: deque[Word]) -> str:
        """The value of `--name value`. Raises UsageError when the next word is an option or there is none."""
        knob = (knobs_of(Globals) | self._local).get(word.text)
        is_value = bool(rest) and not rest[0].text.startswith("--")
        if knob is not None and knob.flag and not (is_value and rest[0].text.lower() in ("true", "false", "1", "0")):
            return "true"
        if not is_value:
            raise UsageError("a value is missing", where=_where(word), fix=f"write '{word.text}=VALUE'")
        return rest.popleft().text

    def _batch(self, name: str, option: Word, nest: tuple[Path, ...]) -> None:
        """Feed a batch file. With no driver chosen, the packaged inputs in which it lies tell the driver."""
        if not self.driver and len(found := drivers_with(name, names("drivers"))) == 1:
            self._choose(found[0], option)
        try:
            path, _ = self.lookup.find(name, self.driver.folder if self.driver else "")
        except InvalidArguments as bad:
            raise bad.inside(option.where) if option.where else bad from None
        if path.resolve() in nest:
            chain = " -> ".join(p.name for p in (*nest, path))
            raise UsageError(f"batch files include each other: {chain}", where=option.where or f"--batch={name}")
        self.feed(list(tokenize(path.read_text(encoding="utf-8"), name)), (*nest, path.resolve()))

    def _run(self, text: str, option: Word) -> None:
        """One problem per element of the product; the global knobs vary slowest, then the driver's in the order of its loops.

        A case that cannot be found or read is a problem too: it fails when its turn comes, and the others run.
        """
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
            unusable = InvalidArguments(what, where=text, fix=fix)
        self.knobs["case"] = (case,)
        for shared in _product(Globals, self.globals):
            if shared.mode is Mode.correctness and shared.has_no_reference:
                fix = "leave out --mode-modifier=M, or choose a mode other than C"
                raise UsageError("mode C compares with a reference, which modifier M leaves out", where=_where(option), fix=fix)
            for own in _product(self.driver.knobs, self.knobs, self.driver.loops):
                problem = Problem(self.planned, self.driver, shared, own, file, unusable)
                self.planned += 1
                part, parts = shared.shard
                if problem.index % parts == part - 1 and search(shared.match, problem.repro):
                    self.problems.append(problem)


def _product(knobs: type, state: dict[str, tuple[Any, ...]], loops: tuple[str, ...] = ()) -> list[Any]:
    """A knob set per choice of alternatives. loops: the slowest fields; the others follow in order of declaration."""
    names = [k.name for k in knobs_of(knobs).values()]
    axes = [name for name in (*loops, *(n for n in names if n not in loops)) if name in state]
    return [knobs(**dict(zip(axes, choice, strict=True))) for choice in product(*(state[name] for name in axes))]


def _values(knob: Knob, value: str, option: Word) -> tuple[Any, ...]:
    """The alternatives a value stands for. Raises UsageError."""
    if not value:
        return (knob.default,)
    try:
        return tuple(knob.parse(part) if part else knob.default for part in (value.split(",") if knob.product else [value]))
    except ValueError as bad:
        raise UsageError(f"bad value '{value}'", where=_where(option), fix=str(bad) or f"give {knob.value}") from bad


def _check_report(name: str, option: Word) -> None:
    try:
        load_report(name)
    except InvalidArguments as bad:
        raise UsageError(bad.what, where=_where(option), fix=bad.fix) from bad


def _where(option: Word) -> str:
    return f"{option.where}: {option.text}" if option.where else option.text
