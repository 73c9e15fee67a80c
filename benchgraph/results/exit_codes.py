"""The meaning of benchgraph's exit codes, command by command. A test compares docs/exit-codes.md with this table."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """refused: the command could not be understood or started; interrupted: the shell's code for Ctrl-C."""

    ok = 0
    failed = 1
    refused = 2
    interrupted = 130


RUN = "DRIVER"  # a command line without a command runs cases
ERROR = "a case cannot be read or compiled, or what is found not be written"
WORDS = "the words or the environment variables cannot be understood"
CTRL_C = "Ctrl-C"


def _meanings(ok: str, failed: str, refused: str = WORDS, interrupted: str = CTRL_C) -> dict[ExitCode, str]:
    return dict(zip(ExitCode, (ok, failed, refused, interrupted), strict=True))


MEANINGS: dict[str, dict[ExitCode, str]] = {
    RUN: _meanings(
        "no case failed",
        "a case failed or cannot be read, or is of a status that --fail-on names; or a report or the history could not be "
        "written at the end",
        f"{WORDS}, or a batch file, library, instruction set or history they name cannot be used, or a place for results not be "
        "written; no case was run",
        f"{CTRL_C}; what was done by then is reported",
    ),
    "help": _meanings("printed", "never"),
    "list": _meanings("printed", "never"),
    "ops": _meanings("printed", "there is no such kind"),
    "show": _meanings("drawn", ERROR),
    "explain": _meanings("explained", ERROR),
    "import": _meanings("written", "a file cannot be read, holds no log or no case, or cannot be written"),
    "localise": _meanings("no op is wrong", f"an op is wrong; or {ERROR}"),
    "opt": _meanings("printed", "the text cannot be read or is not valid, or a pass refuses it"),
    "compile-times": _meanings("measured", ERROR),
    "tune": _meanings("all cases were tuned", "a case could not be tuned; the others were", interrupted=f"{CTRL_C}; findings are stored"),
    "calibrate": _meanings("measured", "there is too little memory, or the table cannot be written"),
    "fuzz": _meanings(
        "no graph failed",
        "a graph failed, or is of a status that --fail-on names",
        f"{WORDS}, or what they name cannot be used; no graph was run",
    ),
    "compare": _meanings(
        "nothing got worse",
        "a case regressed or fails newly, or there is what --fail-on names",
        f"{WORDS}, or files cannot be read, compared or written",
    ),
    "ab": _meanings(
        "nothing got worse",
        "a case became slower, wrong or unsupported, or fell to a reference implementation; or fails on both versions or cannot be read; "
        "or neither version could run any case; or a report could not be written at the end",
        f"{WORDS}, or a version, batch file or instruction set they name cannot be used, or a place for reports not be written",
        f"{CTRL_C}; what was measured by then is reported if a launch was complete",
    ),
    "bisect": _meanings(
        "the first bad commit was found",
        "BAD is not bad, or cannot be told from GOOD, or commits that had to be skipped leave several",
        f"{WORDS}, or the commits, their repository or a batch file cannot be used, or GOOD cannot be built or loaded, or fails itself",
    ),
    "history": _meanings("printed, or added", "never", f"{WORDS}, or the database or a file cannot be used"),
    "regressions": _meanings(
        "nothing got slower for good, or too few runs are there to tell, which it says",
        "something did",
        f"{WORDS}, or the database cannot be used",
    ),
    "render": _meanings("written", "never", f"{WORDS}, or files cannot be read or written"),
    "merge": _meanings("written", "never", f"{WORDS}, or files cannot be read or written, or are no shards of one run"),
}
