"""Looks up oneDNN: a given path, BENCHGRAPH_ONEDNN, an installed wheel, or the system's library; and its environment variables."""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from benchgraph.core.config import config, environment
from benchgraph.core.errors import InvalidArguments
from benchgraph.core.files import exists, is_file

SONAME = "libdnnl.so.3"
WHEELS = ("onednn", "onednn-cpu-gomp", "onednn-cpu-iomp", "onednn-cpu-tbb")  # each installs SONAME into the environment's lib
INSTALL = "install a wheel (pip install 'benchgraph[onednn]'), or name the file: --library=onednn:PATH or BENCHGRAPH_ONEDNN=PATH"

# How long idle OpenMP threads spin: libgomp's count of pauses (about 0.1 ms), libiomp5's milliseconds. Longer than between two parallel
# regions of an execution, short enough not to take cores from others (docs/measurements/spinning.md).
SPIN = {"GOMP_SPINCOUNT": "2000", "KMP_BLOCKTIME": "1"}

_OPENCL = "libintelocl.so"  # the Intel OpenCL CPU runtime, needed by the CPU engine of a SYCL build


def find(path: str = "", kind: str = "onednn") -> str:
    """The file to load: path, BENCHGRAPH_ONEDNN, that of a wheel, else SONAME, which the loader searches. InvalidArguments if missing.

    kind: of the library that the path was given for.
    """
    for named, where in ((path, f"--library={kind}:{path}"), (config().onednn, "BENCHGRAPH_ONEDNN")):
        if named:
            return _existing(Path(os.path.expanduser(named)), where)  # keeps ~user of an unknown user
    return next((str(file) for file in _in_wheels()), SONAME)


def _existing(path: Path, where: str) -> str:
    if exists(path) and path.is_dir():
        path = path / SONAME
    if not is_file(path):
        what = f"{path} is not a file" if exists(path) or os.path.islink(path) else f"there is no file {path}"
        raise InvalidArguments(what, where=where, fix=f"give the path of {SONAME}")
    target = path.resolve()
    beside = target.parent / path.name  # SONAME, by which wheels find what lies beside it
    return str(beside if is_file(beside) else target)


def _in_wheels() -> Iterator[Path]:
    for wheel in WHEELS:
        try:
            files = distribution(wheel).files or ()
        except PackageNotFoundError:
            continue
        for file in files:
            if file.name == SONAME and (library := Path(str(file.locate())).resolve()).is_file():
                yield library


def process_environment(path: str, threads: int, log: str = "") -> dict[str, str]:
    """The environment of a process that loads this file and runs on so many threads. log: its ONEDNN_VERBOSE, if it is not ours.

    Idle OpenMP threads spin briefly (SPIN), libraries beside the file are found, as wheels without a run path need, and a SYCL build gets
    the OpenCL runtime beside it.
    """
    changes = {"OMP_NUM_THREADS": str(threads)} | ({"ONEDNN_VERBOSE": log} if log else {})
    defaults = dict(SPIN)
    folder = Path(path).parent
    if folder != Path():
        ours = environment({})
        changes["LD_LIBRARY_PATH"] = os.pathsep.join(filter(None, (str(folder), ours.get("LD_LIBRARY_PATH", ""))))
        if (folder / _OPENCL).exists():
            defaults["OCL_ICD_FILENAMES"] = _OPENCL
    return environment(defaults, **changes)
