"""Files that a user names. A named pipe that nobody writes would be waited for without end; links may run in circles, names be too long."""

from __future__ import annotations

import errno
import os
from pathlib import Path


def real(path: Path) -> Path:
    """Where the path leads, absolute and through all links; into a circle of links, as far as that can be followed."""
    return Path(os.path.realpath(path))


def exists(path: Path) -> bool:
    """Whether something is there that can be found: names may be too long for the system, or behind folders that are closed."""
    try:
        return path.exists()
    except (OSError, ValueError):  # ValueError: a NUL in the name
        return False


def is_file(path: Path) -> bool:
    """Whether there is a file that can be found."""
    return exists(path) and path.is_file()


def need_no_device(path: Path) -> None:
    """Raise OSError for a named pipe, a device or a socket. The pipes that a shell gives as /dev/fd/N have no name, and pass."""
    target = real(path)
    if target.exists() and not target.is_file() and not target.is_dir():
        raise OSError(errno.EINVAL, "it is a device or a pipe, not a file")


def read_text(path: Path, errors: str = "replace") -> str:
    """What a file of UTF-8 text holds. errors: what becomes of bytes that are none, as `open` has it. Raises OSError."""
    need_no_device(path)
    return path.read_text(encoding="utf-8", errors=errors)


def make_folder(path: Path) -> None:
    """Make a folder where there is none. Raises OSError, NotADirectoryError where a file is in its way."""
    above = next((p for p in (path, *path.parents) if p.exists()), path)
    if above.exists() and not above.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(above))
    path.mkdir(parents=True, exist_ok=True)


def data_dir(name: str) -> Path:
    """The folder drivers, reports or inputs: inside the package when installed from a wheel, beside it in a checkout."""
    package = Path(__file__).parents[1]
    installed = package / "_data" / name
    return installed if installed.is_dir() else package.parent / name
