"""Where oneDNN is looked for, and in which order."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from benchgraph.core.config import override
from benchgraph.core.errors import InvalidArguments
from benchgraph.onednn import find_library as module
from benchgraph.onednn.find_library import SONAME, find, process_environment


def library(folder: Path) -> Path:
    folder.mkdir()
    (folder / SONAME).touch()
    return folder / SONAME


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    found = {name: library(tmp_path / name) for name in ("path", "variable", "wheel")}
    monkeypatch.setattr(module, "_in_wheels", lambda: iter([found["wheel"]]))
    return found


def test_a_path_goes_before_the_variable_the_variable_before_a_wheel(places: dict[str, Path]) -> None:
    with override(onednn=str(places["variable"])):
        assert find(str(places["path"])) == str(places["path"])
        assert find() == str(places["variable"])
    with override(onednn=""):
        assert find() == str(places["wheel"])


def test_the_systems_library_is_the_last_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_in_wheels", lambda: iter(()))
    with override(onednn=""):
        assert find() == SONAME


def test_a_folder_stands_for_the_library_in_it(places: dict[str, Path]) -> None:
    assert find(str(places["path"].parent)) == str(places["path"])


def test_a_named_file_that_is_not_there_is_no_reason_to_look_elsewhere(places: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(InvalidArguments, match=r"--library=onednn:.*gone\.so: there is no file .*gone\.so; give the path of libdnnl"):
        find(str(tmp_path / "gone.so"))
    with override(onednn=str(tmp_path / "gone.so")), pytest.raises(InvalidArguments, match="BENCHGRAPH_ONEDNN: there is no file"):
        find()


def test_the_library_finds_libraries_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = library(tmp_path / "lib")
    monkeypatch.setenv("LD_LIBRARY_PATH", "/else")
    monkeypatch.delenv("OCL_ICD_FILENAMES", raising=False)
    found = process_environment(str(file), 3)
    assert found["LD_LIBRARY_PATH"] == f"{file.parent}{os.pathsep}/else"
    assert found["OMP_NUM_THREADS"] == "3"
    assert "OCL_ICD_FILENAMES" not in found
    (file.parent / "libintelocl.so").touch()
    assert process_environment(str(file), 3)["OCL_ICD_FILENAMES"] == "libintelocl.so"


def test_the_users_own_settings_stand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = library(tmp_path / "lib")
    (file.parent / "libintelocl.so").touch()
    monkeypatch.setenv("OCL_ICD_FILENAMES", "mine.so")
    monkeypatch.setenv("GOMP_SPINCOUNT", "5")
    monkeypatch.setenv("LD_LIBRARY_PATH", "/else")
    found = process_environment(SONAME, 1)
    assert (found["GOMP_SPINCOUNT"], found["LD_LIBRARY_PATH"]) == ("5", "/else")
    assert process_environment(str(file), 1)["OCL_ICD_FILENAMES"] == "mine.so"


def test_a_link_of_another_name_is_followed(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    target = tmp_path / "lib/libdnnl.so.3"
    target.touch()
    (tmp_path / "mine.so").symlink_to(target)
    assert find(str(tmp_path / "mine.so")) == str(target)
