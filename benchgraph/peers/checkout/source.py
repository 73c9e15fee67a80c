"""Finds a checkout of benchgraph: a folder, or a commit that is written to a folder once."""

from __future__ import annotations

import os
import subprocess
import tarfile
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from typing import Any

import benchgraph
from benchgraph.core.config import cache_home
from benchgraph.core.errors import InvalidArguments
from benchgraph.core.git import git, resolve

PACKAGE = "benchgraph/__init__.py"
TOP_LEVEL = ("benchgraph", "drivers", "reports", "inputs")  # what a process of the package may read
FILTER: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}  # Python has it since 3.11.4


@dataclass(frozen=True)
class Source:
    """folder: with the package benchgraph in it. version: its commit, shortened, with + for changes since; '' where git does not know."""

    folder: Path
    version: str

    @property
    def python(self) -> str:
        """Its own interpreter, if it has an environment; else ''."""
        own = self.folder / ".venv/bin/python"
        return str(own) if os.access(own, os.X_OK) else ""


def find(place: str) -> Source:
    """A folder with a checkout, or a commit of the repository of the working directory, else of this package. Raises InvalidArguments."""
    folder = Path(os.path.expanduser(place))
    if folder.is_dir():
        return _folder(folder.resolve(), place)
    for repository in repositories():
        if commit := resolve(place, repository):
            return Source(written(repository, commit), commit[:10])
    what = f"there is no folder {place}, and no commit of that name"
    fix = "give a checkout of benchgraph, or run in the repository that has the commit"
    raise InvalidArguments(what, where=f"--library=benchgraph:{place}", fix=fix)


def _folder(folder: Path, place: str) -> Source:
    if not (folder / PACKAGE).is_file():
        raise InvalidArguments(f"{folder} has no {PACKAGE}", where=f"--library=benchgraph:{place}", fix="give the top folder of a checkout")
    commit = git(folder, "rev-parse", "--short=10", "HEAD") or ""
    is_changed = commit and git(folder, "status", "--porcelain", "--untracked-files=no", "--", *TOP_LEVEL)
    return Source(folder, f"{commit}+" if is_changed else commit)


def repositories() -> list[Path]:
    """Repositories of benchgraph: that of the working directory, and that of this package."""
    found = [Path(top) for top in (git(Path(), "rev-parse", "--show-toplevel"),) if top and (Path(top) / PACKAGE).is_file()]
    return [*found, Path(benchgraph.__file__).resolve().parent.parent]


def written(repository: Path, commit: str) -> Path:
    """The commit's files in the cache folder, which is read again later. Raises InvalidArguments where git or the disk refuses."""
    target = (cache_home() or Path(gettempdir()) / "benchgraph") / "checkouts" / commit
    if target.is_dir():
        return target
    where = f"commit {commit[:10]}"
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        files = subprocess.run(["git", "-C", str(repository), "archive", commit], capture_output=True, check=True).stdout
        with TemporaryDirectory(dir=target.parent) as folder:
            made = Path(folder) / commit
            with tarfile.open(fileobj=BytesIO(files)) as archive:
                archive.extractall(made, **FILTER)
            if not (made / PACKAGE).is_file():
                raise InvalidArguments(f"it has no {PACKAGE}", where=where, fix="give a commit of benchgraph")
            made.rename(target)
    except subprocess.CalledProcessError as bad:
        raise InvalidArguments(f"git cannot write it: {bad.stderr.decode().strip()}", where=where, fix="give a folder instead") from bad
    except OSError as bad:
        if target.is_dir():  # another process was quicker
            return target
        raise InvalidArguments(f"cannot be written to {target}: {bad.strerror}", where=where, fix="give a folder instead") from bad
    return target
