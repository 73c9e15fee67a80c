"""Destinations of results: predictable errors are raised before the first case runs; if writing fails later, results are saved elsewhere.

A report may go to a file, or to standard output with `-`; everything else that a run prints then goes to standard error, so that
`benchgraph ... --report=json:- | jq .` works.
"""

from __future__ import annotations

import errno
import os
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from pathlib import Path
from typing import TextIO

from benchgraph.core.config import PREFIX, config
from benchgraph.core.errors import UsageError
from benchgraph.core.files import make_folder, real
from benchgraph.harness.standard_streams import lost
from benchgraph.options.knobs import Globals
from benchgraph.options.plugins import suffixes
from benchgraph.results.json_report import is_plain, unwritable

STDOUT = "-"  # stands for standard output


def need_outputs(settings: Globals, inputs: Iterable[Path | None] = ()) -> None:
    """Check every output file of the options. Raises UsageError for a file used twice, and for one that cannot be written.

    inputs: files that the run reads, which no output may overwrite; that of --resume is read and written.
    """
    read = (*inputs, settings.data, settings.tuning, settings.history.removeprefix("sqlite:///"))
    places = dict[object, str]()
    for name, file in settings.reports:
        option = f"--report={name}:{file}" if (name, file) in settings.report else f"--resume={file}"
        need_own_place(places, file, option, "")
        if file not in ("", STDOUT):
            need_file(Path(file), option, read if file != settings.resume else ())
    here = "." if config().dump else ""
    for folder, option in (
        (settings.dump_dir, f"--dump-dir={settings.dump_dir}"),
        (settings.save_failures, f"--save-failures={settings.save_failures}"),
        (config().dump_dir, f"{PREFIX}DUMP_DIR={config().dump_dir}"),
        (here, f"{PREFIX}DUMP"),
    ):
        if folder:
            need_folder(Path(folder), option)


def need_own_place(places: dict[object, str], file: str, option: str, command: str) -> None:
    """Add the place of a report, '' for none. Raises UsageError if another option has it. command: what stands before options in errors."""
    if file and (other := places.setdefault(file if file == STDOUT else real(Path(file)), option)) != option:
        what = "two reports on standard output" if file == STDOUT else "two reports in one file"
        raise UsageError(what, where=f"{command}{other}, {option}", fix="give each a place of its own")


def need_file(path: Path, where: str, inputs: Iterable[str | Path | None] = ()) -> None:
    """Check that the file can be written, making only its folder, and is none of the inputs. Raises UsageError.

    where: its name in errors.
    """
    if real(path) in {real(Path(file)) for file in inputs if file}:
        raise UsageError("it is read, and would be overwritten", where=where, fix="name another file")
    try:
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if is_plain(path):
            _try_folder(real(path).parent)
        elif real(path).is_fifo():  # opening one without a reader would block
            raise OSError(errno.EINVAL, "it is a named pipe, not a file")
        elif not os.access(path, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as bad:
        raise _refused(bad, where) from bad


def need_folder(path: Path, where: str) -> None:
    """As `need_file`, for a folder of files."""
    try:
        _try_folder(path)
    except OSError as bad:
        raise _refused(bad, where) from bad


def _refused(bad: OSError, where: str) -> UsageError:
    error = unwritable(bad, where)
    return UsageError(error.what, where=error.where, fix=error.fix)


def _try_folder(path: Path) -> None:
    make_folder(path)
    with tempfile.NamedTemporaryFile(dir=path, prefix=".benchgraph-"):
        pass


@contextmanager
def kept_apart(settings: Globals) -> Iterator[TextIO]:
    """Standard output for reports: if one goes there, all other output inside goes to standard error."""
    out = sys.stdout
    if all(file != STDOUT for _, file in settings.reports):
        yield out
        return
    with redirect_stdout(sys.stderr):
        yield out


def write_out(out: TextIO, text: str) -> None:
    """Write a report to standard output and flush. Raises OSError, such as for a closed pipe."""
    out.write(text if text.endswith("\n") else text + "\n")
    if bad := lost(out):
        raise bad


def full_output(bad: OSError) -> str:
    """The error for a standard output that cannot be written."""
    return f"standard output: cannot write there: {bad.strerror}; make room there, or send it elsewhere"


def drop(out: TextIO) -> None:
    """Discard its buffer, which would otherwise be written, and fail, again at exit."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), out.fileno())


def save_elsewhere(text: str, name: str, key: str) -> Path | None:
    """Save a report that could not be written to its place in the current folder, else in that for temporary files; None if both fail.

    name: of the report. key: identifies the run.
    """
    suffix = next((suffix for suffix, report in suffixes().items() if report == name), ".txt")
    for folder in (Path(), Path(tempfile.gettempdir())):
        path = folder / f"benchgraph-unsaved-{key}{suffix}"
        try:
            with path.open("x", encoding="utf-8") as file:
                file.write(text)
        except FileExistsError:
            continue
        except OSError:
            with suppress(OSError):
                path.unlink(missing_ok=True)
        else:
            return path
    return None
