"""Files that cases read, by the digest of their content: each reaches a host once, and not at all where it lies there too.

The client names files by path and digest. A worker that has a file of this content at this path, as on a shared file system, reads it
there; else from its store, a folder per digest; what is not there either it asks for.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import gettempdir

from benchgraph.core.config import cache_home, config
from benchgraph.core.files import is_file, real
from benchgraph.fleet.parcel import SentFile
from benchgraph.options.problem import Problem

KEPT_S = 7 * 24 * 3600.0  # how long a store keeps what nobody reads
ADDED = ("data", "tuning")  # global options that name files which cases read


# ---- on the client ---------------------------------------------------------------------------------------------------


@dataclass
class Contents:
    """The files of the client: digests, and bytes by digest, read again when a host needs them."""

    _digests: dict[Path, tuple[tuple[int, int], str]] = field(default_factory=dict)
    _places: dict[str, Path] = field(default_factory=dict)
    _paths: dict[str, Path] = field(default_factory=dict)

    def files_of(self, problem: Problem) -> tuple[SentFile, ...]:
        """The files of a case that can be read; of others the case says so itself."""
        named = [str(problem.file)] if problem.file is not None else []
        named += [name for option in ADDED if (name := getattr(problem.globals, option))]
        return tuple(sent for name in named if (sent := self._sent(name)).contents)

    def bytes_of(self, digest: str) -> bytes | None:
        """The content; None if the file has gone, or has changed since."""
        try:
            content = self._places[digest].read_bytes()
        except OSError:
            return None
        return content if hashlib.sha256(content).hexdigest() == digest else None

    def name_of(self, digest: str) -> str:
        return str(self._places[digest])

    def _sent(self, name: str) -> SentFile:
        if (path := self._paths.get(name)) is None:
            path = self._paths[name] = real(Path(name))
        return SentFile(str(path), name, tuple((inside, self._digest(file)) for inside, file in _parts(path)))

    def _digest(self, path: Path) -> str:
        stat = path.stat()
        known, digest = self._digests.get(path, ((0, 0), ""))
        if known != (stat.st_mtime_ns, stat.st_size):
            digest = digest_of(path)
            self._digests[path] = (stat.st_mtime_ns, stat.st_size), digest
            self._places[digest] = path
        return digest


def _parts(path: Path) -> Iterator[tuple[str, Path]]:
    """A file, or the files in a folder with their names in it."""
    with suppress(OSError):
        if is_file(path):
            yield "", path
        elif path.is_dir():
            yield from ((str(file.relative_to(path)), file) for file in sorted(path.rglob("*")) if is_file(file))


def digest_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# ---- on a worker -----------------------------------------------------------------------------------------------------


def _default_folder() -> Path:
    own = cache_home() if config().cache_dir in ("", "off") else Path(config().cache_dir)
    return (own or Path(gettempdir()) / f"benchgraph-{os.getuid()}") / "fleet"


@dataclass
class Store:
    """The files that a host has got: FOLDER/DIGEST/NAME. Workers share it; it keeps names, which cases and messages tell."""

    folder: Path = field(default_factory=_default_folder)
    _same: set[tuple[str, str]] = field(default_factory=set)  # (path, digest) of files that are here as on the client

    def missing(self, files: Sequence[SentFile], bytes_of: Mapping[str, bytes]) -> tuple[str, ...]:
        """Store what has come along. Returns the digests that are still lacking."""
        lacking = dict[str, None]()
        for sent in files:
            if self._is_same(sent):
                continue
            for inside, digest in sent.contents:
                place = self._place(sent, inside, digest)
                if not place.exists() and digest in bytes_of:
                    _write(place, bytes_of[digest])
                if not place.exists():
                    lacking[digest] = None
        return tuple(lacking)

    def path_of(self, sent: SentFile) -> Path:
        """Where a file of which nothing is missing lies here."""
        if self._is_same(sent):
            return Path(sent.path)
        root = self._root(sent)
        with suppress(OSError):
            os.utime(root)
        return root / Path(sent.path).name

    def drop_old(self) -> None:
        """Remove what nobody has read for KEPT_S."""
        from shutil import rmtree

        with suppress(OSError):
            for each in self.folder.iterdir():
                if each.stat().st_mtime < time.time() - KEPT_S:
                    rmtree(each, ignore_errors=True)

    def _is_same(self, sent: SentFile) -> bool:
        keys = {(str(Path(sent.path) / inside), digest) for inside, digest in sent.contents}
        for path, digest in keys - self._same:
            with suppress(OSError):
                if is_file(Path(path)) and digest_of(Path(path)) == digest:
                    self._same.add((path, digest))
        return keys <= self._same

    def _root(self, sent: SentFile) -> Path:
        """One digest for a file; for a folder that of its names and digests."""
        (inside, digest), *others = sent.contents
        return self.folder / (digest if not others and not inside else hashlib.sha256(repr(sent.contents).encode()).hexdigest())

    def _place(self, sent: SentFile, inside: str, digest: str) -> Path:
        return self._root(sent) / Path(sent.path).name / inside


def _write(place: Path, content: bytes) -> None:
    """At any moment the file is whole or not there."""
    place.parent.mkdir(parents=True, exist_ok=True)
    new = place.with_name(f".{place.name}.{os.getpid()}.{time.monotonic_ns()}")
    try:
        new.write_bytes(content)
        new.replace(place)
    finally:
        new.unlink(missing_ok=True)
