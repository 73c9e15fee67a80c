"""Files that a user names: they may be pipes that block, circles of links, or names that are too long."""

from __future__ import annotations

import errno
import os
from pathlib import Path


def real(path: Path) -> Path:
    """The absolute path with all links resolved, as far as possible in a circle of links."""
    return Path(os.path.realpath(path))


def exists(path: Path) -> bool:
    """Whether the path exists; False too for names that are too long, or in folders without access."""
    try:
        return path.exists()
    except (OSError, ValueError):  # ValueError: a NUL in the name
        return False


def is_file(path: Path) -> bool:
    """Whether the path exists and is a file."""
    return exists(path) and path.is_file()


def need_no_device(path: Path) -> None:
    """Raise OSError for a named pipe, a device or a socket. The pipes that a shell gives as /dev/fd/N have no name, and pass."""
    target = real(path)
    if target.exists() and not target.is_file() and not target.is_dir():
        raise OSError(errno.EINVAL, "it is a device or a pipe, not a file")


def read_text(path: Path, errors: str = "replace") -> str:
    """The text of a UTF-8 file. errors: how invalid bytes are decoded, as in `open`. Raises OSError."""
    need_no_device(path)
    return path.read_text(encoding="utf-8", errors=errors)


def text_or_nothing(path: Path) -> str:
    """The text of a file of the system, without spaces around it; '' where it is missing or secret."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def make_folder(path: Path) -> None:
    """Create a folder if it does not exist. Raises OSError; NotADirectoryError if a file is in its way."""
    above = next((p for p in (path, *path.parents) if p.exists()), path)
    if above.exists() and not above.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(above))
    path.mkdir(parents=True, exist_ok=True)


def data_dir(name: str) -> Path:
    """The folder drivers, reports or inputs: inside the package when installed from a wheel, beside it in a checkout."""
    package = Path(__file__).parents[1]
    installed = package / "_data" / name
    return installed if installed.is_dir() else package.parent / name
