"""The files that outlive a process: whole or absent, bounded, private, and never in the way."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from benchgraph.core.config import cache_home, from_environment, override
from benchgraph.core.errors import InvalidArguments
from benchgraph.core.remarks import collected
from benchgraph.runtime import disk_cache
from benchgraph.runtime.disk_cache import SHARDS, Store, store

KIND = "thing"
KEY = sha256(b"key").hexdigest()


@pytest.fixture
def kept(tmp_path: Path) -> Store:
    return Store(tmp_path, 16 << 20)


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    """Stores that a test opened are not the next one's."""
    disk_cache._opened.cache_clear()
    yield
    disk_cache._opened.cache_clear()


def file(s: Store) -> Path:
    (found,) = (p for p in s.directory.rglob("*") if p.is_file())
    return found


def test_a_stored_value_is_loaded_and_counted(kept: Store) -> None:
    assert kept.get(KIND, KEY) is None
    kept.put(KIND, KEY, b"content")
    assert kept.get(KIND, KEY) == b"content"
    assert kept.get("other", KEY) is None
    assert (kept.hits, kept.misses) == ({KIND: 1}, {KIND: 1, "other": 1})
    assert file(kept).stat().st_mode & 0o777 == 0o600


def test_no_temporary_file_is_left_beside_a_file(kept: Store) -> None:
    for content in (b"1", b"22"):
        kept.put(KIND, KEY, content)
    assert [p.name for p in file(kept).parent.iterdir()] == [f"{KIND}-{KEY}"]
    assert kept.get(KIND, KEY) == b"22"


@pytest.mark.parametrize(
    "spoil",
    [
        lambda data: data[:-1],
        lambda data: data[: len(data) // 2],
        lambda data: b"",
        lambda data: data[:-1] + b"!",
        lambda data: data + b"!",
        lambda data: b"bgcache0" + data[8:],
        lambda data: data[:8] + bytes(32) + data[40:],
    ],
    ids=["torn", "halved", "empty", "changed", "longer", "other format", "wrong checksum"],
)
def test_a_corrupt_file_counts_as_absent_and_is_deleted(kept: Store, spoil: Callable[[bytes], bytes]) -> None:
    kept.put(KIND, KEY, b"content")
    path = file(kept)
    path.write_bytes(spoil(path.read_bytes()))
    assert kept.get(KIND, KEY) is None
    assert not path.exists()
    kept.put(KIND, KEY, b"content")
    assert kept.get(KIND, KEY) == b"content"


def test_a_file_is_not_taken_for_another_ones(kept: Store) -> None:
    other = KEY[0] + sha256(b"other").hexdigest()[1:]
    kept.put(KIND, KEY, b"content")
    path = file(kept)
    path.rename(path.with_name(f"{KIND}-{other}"))
    assert kept.get(KIND, other) is None


def as_link(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to(path.with_name("elsewhere"))


def as_pipe(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()
    os.mkfifo(path)


def as_socket(path: Path) -> None:
    path.unlink()
    os.mknod(path, stat.S_IFSOCK | 0o600)


def as_folder(path: Path) -> None:
    path.unlink()
    path.mkdir(0o700)


def as_file(path: Path) -> None:
    shutil.rmtree(path)
    path.write_bytes(b"")


def given_away(path: Path) -> None:
    if os.geteuid():
        pytest.skip("only root can give files away")
    os.chown(path, 65534, 65534)


def with_mode(mode: int) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        path.chmod(mode)

    change.__name__ = f"{mode:o}"
    return change


FILES = [as_link, as_pipe, as_socket, as_folder, given_away, with_mode(0o620), with_mode(0o602), with_mode(0o666)]
FOLDERS = [as_link, as_pipe, as_file, given_away, with_mode(0o770), with_mode(0o702), with_mode(0o1777)]


@pytest.mark.parametrize("spoil", FILES, ids=lambda f: f.__name__)
def test_a_file_that_is_not_ours_alone_is_not_loaded(kept: Store, spoil: Callable[[Path], None]) -> None:
    """Nor waited for. What we write is put in its place, but for a folder."""
    for key in (KEY, "b0"):
        kept.put(KIND, key, key.encode())
    path = kept._path(KIND, KEY)
    spoil(path)
    with collected() as remarks:
        assert kept.get(KIND, KEY) is None
        kept.put(KIND, KEY, b"anew")
        assert kept.get(KIND, KEY) == (None if spoil is as_folder else b"anew")
    assert len(remarks) == 1
    assert remarks[0].startswith("part of the disk cache is not used: ")
    assert str(path) in remarks[0]
    kept.put(KIND, "c0", b"content")
    assert (kept.get(KIND, "b0"), kept.get(KIND, "c0")) == (b"b0", b"content"), "the rest is as before"


@pytest.mark.parametrize("spoil", FOLDERS, ids=lambda f: f.__name__)
def test_a_folder_that_is_not_ours_alone_is_not_used(kept: Store, spoil: Callable[[Path], None]) -> None:
    for key in (KEY, "b0"):
        kept.put(KIND, key, key.encode())
    folder = kept._path(KIND, KEY).parent
    spoil(folder)
    with collected() as remarks:
        assert kept.get(KIND, KEY) is None
        kept.put(KIND, f"{KEY[0]}1", b"content")
        assert kept.get(KIND, f"{KEY[0]}1") is None
    assert len(remarks) == 1
    assert remarks[0].startswith("part of the disk cache is not used: ")
    assert str(folder) in remarks[0]
    kept.put(KIND, "c0", b"content")
    assert (kept.get(KIND, "b0"), kept.get(KIND, "c0")) == (b"b0", b"content"), "the rest is as before"


@pytest.mark.parametrize("spoil", [given_away, with_mode(0o777)], ids=lambda f: f.__name__)
def test_a_directory_that_was_opened_up_meanwhile_is_not_used(tmp_path: Path, spoil: Callable[[Path], None]) -> None:
    kept = Store(tmp_path / "cache", 16 << 20)
    kept.directory.mkdir(0o700)
    kept.put(KIND, KEY, b"content")
    spoil(kept.directory)
    with collected() as remarks:
        assert kept.get(KIND, KEY) is None
        kept.put(KIND, "b0", b"content")
    assert len(remarks) == 1
    assert not (kept.directory / "b").exists()


def test_permissions_are_checked_on_the_opened_folder(kept: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that takes another one's place while it is looked at: the open one counts."""
    kept.put(KIND, KEY, b"content")
    folder, really_ask = kept.directory / KEY[0], os.fstat

    def asked(descriptor: int) -> os.stat_result:
        found = really_ask(descriptor)
        if os.path.samestat(found, os.stat(folder)):
            folder.rename(folder.with_name("aside"))
            folder.mkdir(0o777)
        return found

    monkeypatch.setattr(os, "fstat", asked)
    assert kept.get(KIND, KEY) == b"content"


def test_a_file_larger_than_the_cache_is_not_read(kept: Store) -> None:
    kept.put(KIND, KEY, b"content")
    os.truncate(file(kept), 1 << 40)  # sparse: reading it would take all memory
    assert kept.get(KIND, KEY) is None


def test_files_of_others_in_our_folders_stay(tmp_path: Path) -> None:
    s = Store(tmp_path, SHARDS * 1000)
    (tmp_path / "a").mkdir(0o700)
    (tmp_path / "a" / "notes.txt").write_bytes(bytes(5000))
    s.put(KIND, "a0", bytes(500))
    assert s.get(KIND, "a0") is not None
    assert (tmp_path / "a" / "notes.txt").exists()


def test_a_link_to_the_directory_is_followed_to_what_is_asked(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir(0o700)
    (tmp_path / "link").symlink_to("real")
    s = Store(tmp_path / "link", 16 << 20)
    s.put(KIND, KEY, b"content")
    assert s.get(KIND, KEY) == b"content"
    (tmp_path / "real").chmod(0o777)
    with collected() as remarks:
        assert s.get(KIND, KEY) is None
    assert remarks


def test_the_size_is_bounded_and_the_most_recently_used_files_stay(tmp_path: Path) -> None:
    s = Store(tmp_path, SHARDS * 1000)
    keys = [f"a{i}" for i in range(8)]
    for i, key in enumerate(keys):
        s.put(KIND, key, bytes(200))
        os.utime(s._path(KIND, key), ns=(i, i))
        if i == 2:
            assert s.get(KIND, keys[0]) is not None  # its time is now
    left = [k for k in keys if s._path(KIND, k).exists()]
    assert sum(p.stat().st_size for p in tmp_path.rglob("*") if p.is_file()) <= 1000
    assert left == ["a0", "a5", "a6", "a7"]


def test_a_value_larger_than_a_folder_is_not_stored(tmp_path: Path) -> None:
    s = Store(tmp_path, SHARDS * 1000)
    s.put(KIND, "a0", bytes(500))
    s.put(KIND, "a1", bytes(1000))
    assert s.get(KIND, "a0") is not None
    assert s.get(KIND, "a1") is None


def test_temporary_files_of_dead_writers_are_deleted_and_others_stay(kept: Store) -> None:
    folder = kept.directory / KEY[0]
    folder.mkdir()
    dead, alive = folder / ".new-1", folder / ".new-2"
    for path in (dead, alive):
        path.write_bytes(b"half")
    os.utime(dead, (time.time() - 7200,) * 2)
    kept.put(KIND, KEY, b"content")
    assert (dead.exists(), alive.exists()) == (False, True)


def test_a_reader_keeps_what_is_evicted_under_it(kept: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Deleted between the opening of the file and the reading of it."""
    kept.put(KIND, KEY, b"content")
    path = file(kept)
    really_open = os.open

    def opened(*args: object, **kwargs: object) -> int:
        descriptor = really_open(*args, **kwargs)  # type: ignore[arg-type]
        if args[0] == path.name:
            path.unlink()
        return descriptor

    monkeypatch.setattr(os, "open", opened)
    assert kept.get(KIND, KEY) == b"content"
    assert not path.exists()


def fails_with(code: int, monkeypatch: pytest.MonkeyPatch, name: str) -> list[int]:
    calls = [0]

    def fail(*args: object, **kwargs: object) -> None:
        calls[0] += 1
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, name, fail)
    return calls


@pytest.mark.parametrize(("code", "name"), [(errno.ENOSPC, "replace"), (errno.EROFS, "open"), (errno.EACCES, "open")])
def test_one_remark_reports_a_cache_that_cannot_be_written(code: int, name: str, kept: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    kept.put(KIND, "b0", b"before")
    with collected() as remarks, monkeypatch.context() as patch:
        calls = fails_with(code, patch, name)
        for key in ("c1", "c2", "c3"):
            kept.put(KIND, key, b"content")
    assert calls == [1]
    assert remarks == [f"the disk cache {kept.directory} cannot be written ({os.strerror(code)}): what is compiled now is not kept"]
    assert kept.get(KIND, "b0") == b"before"
    assert [p.name for p in kept.directory.rglob("*") if p.is_file()] == [f"{KIND}-b0"], "a half-written file is taken away"


def test_the_directory_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    with override(cache_dir=str(tmp_path / "a" / "b"), disk_cache_capacity=1):
        s = store()
        assert s is not None
        assert s is store()
    for path in (tmp_path / "a", tmp_path / "a" / "b"):
        assert path.stat().st_mode & 0o777 == 0o700
    assert s.capacity == 1 << 20


@pytest.mark.parametrize("mode", [0o777, 0o720, 0o1777])
def test_a_directory_that_others_may_write_to_is_refused(tmp_path: Path, mode: int) -> None:
    tmp_path.chmod(mode)
    with override(cache_dir=str(tmp_path), disk_cache_capacity=1), collected() as remarks:
        assert store() is None
        assert store() is None
    assert len(remarks) == 1
    assert remarks[0].startswith(f"no disk cache: other users may write to {tmp_path} (chmod go-w it); BENCHGRAPH_CACHE_DIR names another")


def test_another_users_directory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: tmp_path.stat().st_uid + 1)
    with override(cache_dir=str(tmp_path), disk_cache_capacity=1), collected() as remarks:
        assert store() is None
    assert "belongs to another user" in remarks[0]


def test_a_file_in_the_directorys_place_is_no_store(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with override(cache_dir=str(tmp_path / "file" / "cache"), disk_cache_capacity=1), collected() as remarks:
        assert store() is None
    assert "Not a directory" in remarks[0]


def test_capacity_0_disables_the_cache(tmp_path: Path) -> None:
    with override(cache_dir=str(tmp_path / "cache"), disk_cache_capacity=0), collected() as remarks:
        assert store() is None
    assert not remarks
    assert not (tmp_path / "cache").exists()


def test_off_disables_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with override(cache_dir=from_environment({"BENCHGRAPH_CACHE_DIR": "off"}).cache_dir, disk_cache_capacity=1):
        assert store() is None
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("text", ["cache", "./cache", "Off"])
def test_a_relative_directory_is_refused(text: str) -> None:
    with pytest.raises(InvalidArguments, match=f"BENCHGRAPH_CACHE_DIR: bad value '{text}'; give an absolute path"):
        from_environment({"BENCHGRAPH_CACHE_DIR": text})


def test_the_default_place_is_the_users(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert cache_home() == Path("/home/me/.cache/benchgraph")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")  # which the specification tells programs to ignore
    assert cache_home() == Path("/home/me/.cache/benchgraph")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_home() == tmp_path / "benchgraph"


WRITER = """
import sys
from pathlib import Path
from benchgraph.runtime.disk_cache import Store
s = Store(Path(sys.argv[1]), 16 << 17)  # a folder holds few of these, so writers also evict
for turn in range(40):
    for key in ("aa", "ab", "ac"):
        content = (key + str(turn % 2)).encode() * 20_000
        s.put("thing", key, content)
        found = s.get("thing", key)
        assert found is None or found in {(key + n).encode() * 20_000 for n in "01"}, "somebody's file was seen half written"
print(s.hits["thing"], s._may_write)
"""


def test_many_writers_of_one_key_leave_whole_files(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WRITER, str(tmp_path)]
    writers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    said = [w.communicate(timeout=100)[0].split() for w in writers]
    assert [w.returncode for w in writers] == [0] * 4
    assert all(int(hits) > 0 and may_write == "True" for hits, may_write in said)
    left = [p for p in tmp_path.rglob("*") if p.is_file()]
    assert 0 < sum(p.stat().st_size for p in left) <= 1 << 17
    assert not [p for p in left if p.name.startswith(".new")]
