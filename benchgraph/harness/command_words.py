"""The words after commands: their own options, and the words that select cases, in any order."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from benchgraph.core.errors import UnknownOption, UsageError, did_you_mean
from benchgraph.harness.outputs import STDOUT, need_file
from benchgraph.options.argv import CommandLine, parse
from benchgraph.options.plugins import contradicts, driver_option

T = TypeVar("T")
# Options of a run's results: field of Globals -> what they do with the batch
OF_RUNS = {"report": "report", "history": "record", "resume": "resume", "save_failures": "save failures of", "cluster": "distribute"}
NEGATIVE = re.compile(r"-\.?\d.*")  # a negative number is a value, not an option


def value_of(command: str, word: str, left: list[str], *, form: str = " VALUE", barred: str = "-") -> str:
    """The value of an option: after its =, or the next word, which is removed, unless it looks like an option (barred) and is no number.

    Raises UsageError, naming the command and the form of the option, if there is none.
    """
    option, has_value, value = word.partition("=")
    if not has_value and left and (left[0] == STDOUT or not left[0].startswith(barred) or NEGATIVE.fullmatch(left[0])):
        value = left.pop(0)
    if not value:
        raise UsageError("a value is missing", where=f"{command}: {option}", fix=f"write '{option}{form}'")
    return value


def parsed_value(command: str, option: str, value: str, parse: Callable[[str], T]) -> T:
    """The parsed value of an option. Raises UsageError with the parser's remedy."""
    try:
        return parse(value)
    except ValueError as bad:
        raise UsageError(f"bad value '{value}'", where=f"{command}: {option}", fix=str(bad)) from bad


def own_options(
    command: str, options: Collection[str], given: Sequence[str], rest: list[str], *, form: str = " VALUE", barred: str = "-"
) -> Iterator[tuple[str, str]]:
    """(option, value) for each word that is one of these options, in order; all others are appended to rest.

    form, barred: as in `value_of`. Raises UsageError for an option without a value.
    """
    left = list(given)
    while left:
        word = left.pop(0)
        option = word.partition("=")[0]
        if option in options:
            yield option, value_of(command, word, left, form=form, barred=barred)
        else:
            rest.append(word)


def need_no_options(command: str, words: Sequence[str], options: Sequence[str], *, allows_others: bool = True) -> None:
    """Raise UsageError for a word that looks like an option or is empty, or for any. options: those that the command has."""
    for word in words:
        option, listed = word.partition("=")[0], f"there {'are' if len(options) > 1 else 'is'} {', '.join(options)}"
        if option.startswith("-") and option != STDOUT:
            raise UnknownOption("unknown option", where=f"{command}: {option}", fix=did_you_mean(option, options) or listed)
        if not word:
            raise UsageError("an empty word, as of a variable that is not set", where=command, fix="give a name, or leave it out")
        if not allows_others:
            raise UsageError("a word that is not an option", where=f"{command}: {word}", fix=listed)


def need_output(command: str, file: str, kind: str, inputs: Iterable[str | Path | None] = ()) -> None:
    """Check that the command's output file can be written. kind: of report, '' for other files; a file of '' or - is the terminal.
    inputs: what the command reads, which is not to be overwritten.

    Raises UsageError for a suffix of another report, and for a file that cannot be written.
    """
    if other := contradicts(kind, file):
        what = f"the file's name says {other}, and {kind} is what it gets"
        raise UsageError(what, where=f"{command}: --output={file}", fix="name it otherwise")
    if file not in ("", STDOUT):
        need_file(Path(file), file, inputs)


def select_cases(command: str, words: Sequence[str]) -> CommandLine:
    """The cases that the command's words select. The default driver is graph; a named one may be anywhere among the words.

    Raises UsageError for options of a run's results, which only runs have.
    """
    found = [(i, i + length) for i in range(len(words)) if (length := _names_driver(words, i))]
    if len(found) == 1:
        ((begin, end),) = found
        words = [*words[begin:end], *words[:begin], *words[end:]]
    line = parse(words, default="graph", command=command)
    for name, verb in OF_RUNS.items():
        if getattr(line.globals, name):
            fix = f"leave it out, or leave out '{command}'; 'benchgraph {command} --help' says what the command writes"
            raise UsageError(f"the command runs no batch to {verb}", where=f"{command}: --{name.replace('_', '-')}", fix=fix)
    return line


def _names_driver(words: Sequence[str], at: int) -> int:
    """How many words from here name a driver: --matmul, --driver=matmul, --driver matmul."""
    option, has_value, _ = words[at].partition("=")
    if option == "--driver":
        return 1 if has_value else 2
    return int(not has_value and bool(driver_option(option)))
