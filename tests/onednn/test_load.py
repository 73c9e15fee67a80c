"""Files that are not oneDNN, or unsuitable, are errors of one line with a remedy."""

from __future__ import annotations

import ctypes
import ctypes.util
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from benchgraph.cli import main
from benchgraph.core.errors import InvalidArguments
from benchgraph.onednn import capi, find_library, session
from benchgraph.onednn.library import OneDnn
from benchgraph.onednn.session import Refused

CASE = ["--graph", "--case=mlp.json"]


def test_a_text_file_is_no_library(tmp_path: Path) -> None:
    file = tmp_path / "libdnnl.so.3"
    file.write_text("not a library at all\n" * 10)
    with pytest.raises(InvalidArguments, match=r"onednn: .*libdnnl\.so\.3 cannot be loaded: .*; give the path of a libdnnl\.so\.3"):
        OneDnn(str(file))


@pytest.mark.skipif(not ctypes.util.find_library("m") or sys.platform != "linux", reason="no libm.so.6 to take for oneDNN")
def test_another_library_is_not_onednn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(find_library, "_existing", lambda path, where: str(path))
    with pytest.raises(InvalidArguments, match=r"onednn: libm\.so\.6 is not oneDNN; give the path of libdnnl\.so\.3"):
        OneDnn("libm.so.6")


def test_no_onednn_at_all_says_where_it_was_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(find_library, "_in_wheels", lambda: iter(()))
    monkeypatch.delenv("BENCHGRAPH_ONEDNN", raising=False)
    try:
        ctypes.CDLL(find_library.SONAME)
        pytest.skip("the system has one")
    except OSError:
        pass
    with pytest.raises(InvalidArguments, match=r"onednn: no oneDNN is installed; install a wheel \(pip install 'benchgraph\[onednn\]'\)"):
        OneDnn()


class Function:
    """Takes a prototype, as a function of ctypes does."""

    def __init__(self, result: object) -> None:
        self.result = result

    def __call__(self) -> object:
        return self.result


class Versioned:
    """A library with a version and any function that is not in `lacks`."""

    def __init__(self, version: tuple[int, int, int], runtime: int = 2, lacks: str = "") -> None:
        self._info, self._lacks = capi.VersionInfo(*version, None, runtime, 0), lacks

    def __getattr__(self, name: str) -> Function:
        if name == self._lacks:
            raise AttributeError(name)
        return Function(ctypes.pointer(self._info))


@pytest.mark.parametrize(
    ("library", "says"),
    [
        (Versioned((3, 1, 4)), r"is oneDNN 3\.1\.4; 3\.2 or a newer 3\.x is needed"),
        (Versioned((2, 7, 0)), r"is oneDNN 2\.7\.0"),
        (Versioned((4, 0, 0)), r"is oneDNN 4\.0\.0"),
        (Versioned((3, 5, 0), lacks="dnnl_graph_add_op"), r"without the Graph API \(dnnl_graph_add_op\)"),
        (Versioned((3, 5, 0), runtime=8), r"for a thread pool of its user's"),
        (Versioned((3, 5, 0), lacks="dnnl_version"), "is not oneDNN"),
    ],
)
def test_a_library_that_will_not_do(library: Versioned, says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "CDLL", lambda path: library)
    with pytest.raises(Refused, match=says) as bad:
        session.load("lib.so")
    assert bad.value.fix


@pytest.mark.skipif(not shutil.which("cc"), reason="no C compiler to make a library with")
def test_a_version_too_old_is_one_line_with_the_one_that_is_needed(tmp_path: Path) -> None:
    source, file = tmp_path / "old.c", tmp_path / "libdnnl.so.3"
    source.write_text("""
        static const struct { int major, minor, patch; const char *hash; unsigned cpu, gpu; } info = {3, 1, 4, "", 2, 0};
        const void *dnnl_version(void) { return &info; }
    """)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", file, source], check=True)
    done = CliRunner().invoke(main, [f"--library=benchgraph,onednn:{file}", *CASE])
    assert done.exit_code == 2
    what = f"benchgraph: --library=onednn:{file}: onednn: {file} is oneDNN 3.1.4; 3.2 or a newer 3.x is needed; "
    assert done.output == f"{what}install another one: pip install 'benchgraph[onednn]'\n"


def test_one_that_will_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "CDLL", lambda path: Versioned((3, 2, 0)))
    assert session.load("lib.so")[1:] == ((3, 2, 0), "OMP")


def test_a_run_is_refused_before_its_first_case(tmp_path: Path) -> None:
    """Exit code 2, like any command line that cannot work: a missing library would fail every case."""
    gone = tmp_path / "gone.so"
    done = CliRunner().invoke(main, ["--library=benchgraph", *CASE, f"--library=onednn:{gone}", *CASE])
    assert done.exit_code == 2
    assert done.output == f"benchgraph: --library=onednn:{gone}: there is no file {gone}; give the path of libdnnl.so.3\n"


def test_mode_l_needs_no_library(tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["--mode=L", f"--library=onednn:{tmp_path / 'gone.so'}", *CASE])
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("onedn", "did you mean 'onednn'?"),
        ("benchgraph:", "give a checkout or commit after benchgraph:"),
        ("onednn:", "give the path of a library file after onednn:"),
    ],
)
def test_a_library_that_nobody_knows(word: str, says: str) -> None:
    done = CliRunner().invoke(main, [f"--library={word}", *CASE])
    assert done.exit_code == 2
    assert says in done.output


@pytest.mark.skipif(not shutil.which("cc"), reason="no C compiler to make a library with")
@pytest.mark.parametrize(
    ("body", "says"), [("for (;;) pause();", "did not finish loading within 2 s"), ("_Exit(3);", "exited with code 3")]
)
def test_a_library_that_hangs_or_ends_while_it_loads_is_one_line(tmp_path: Path, body: str, says: str) -> None:
    source, file = tmp_path / "bad.c", tmp_path / "libdnnl.so.3"
    source.write_text(f"#include <stdlib.h>\n#include <unistd.h>\n__attribute__((constructor)) static void load(void) {{ {body} }}\n")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", file, source], check=True)
    done = CliRunner().invoke(main, ["--timeout=2", f"--library=onednn:{file}", *CASE])
    assert done.exit_code == 2
    assert done.output.count("\n") == 1
    assert done.output.startswith(f"benchgraph: --library=onednn:{file}: onednn: {file} {says}")
