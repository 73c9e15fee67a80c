"""Where oneDNN is: a path that was given, BENCHGRAPH_ONEDNN, an installed wheel, or the system's library; and what it needs around it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from benchgraph.core.config import config, environment
from benchgraph.core.errors import InvalidArguments
from benchgraph.core.files import exists, is_file

SONAME = "libdnnl.so.3"
WHEELS = ("onednn", "onednn-cpu-gomp", "onednn-cpu-iomp", "onednn-cpu-tbb")  # each puts SONAME into the environment's lib
INSTALL = "install a wheel (pip install 'benchgraph[onednn]'), or name the file: --library=onednn:PATH or BENCHGRAPH_ONEDNN=PATH"

# How long idle OpenMP threads spin: libgomp's count of pauses (of about 140 cycles, so 0.1 ms), libiomp5's milliseconds. Between two
# parallel regions of an execution lie microseconds; what spins longer takes cores from others. libgomp's own 300 000 pauses are 17 ms at
# 2.5 GHz: on 4 cores with 15 runnable threads, 50 products of 256x256x256 on 2 threads took 369 ms with them, 60 with 20 000, 43 with
# 2000, 21 with none; but with none, every region of an idle machine pays for waking its threads, 5 to 50 us.
SPIN = {"GOMP_SPINCOUNT": "2000", "KMP_BLOCKTIME": "1"}

_OPENCL = "libintelocl.so"  # the Intel OpenCL CPU runtime, which the CPU engine of a SYCL build runs on


def find(path: str = "") -> str:
    """The file to load: path, BENCHGRAPH_ONEDNN, that of a wheel, else SONAME, which the loader looks for on the system.

    Raises InvalidArguments for a file that is named and is not there.
    """
    for named, where in ((path, f"--library=onednn:{path}"), (config().onednn, "BENCHGRAPH_ONEDNN")):
        if named:
            return _existing(Path(os.path.expanduser(named)), where)  # which leaves a user alone that is not there
    return next((str(file) for file in _in_wheels()), SONAME)


def _existing(path: Path, where: str) -> str:
    if exists(path) and path.is_dir():
        path = path / SONAME
    if not is_file(path):
        what = f"{path} is no file" if exists(path) or os.path.islink(path) else f"there is no file {path}"
        raise InvalidArguments(what, where=where, fix=f"give the path of {SONAME}")
    return str(path.resolve().parent / path.name)


def _in_wheels() -> Iterator[Path]:
    for wheel in WHEELS:
        try:
            files = distribution(wheel).files or ()
        except PackageNotFoundError:
            continue
        for file in files:
            if file.name == SONAME and (found := Path(str(file.locate())).resolve()).is_file():
                yield found


def surroundings(path: str, threads: int) -> dict[str, str]:
    """The environment for a process that loads this file and runs on so many threads.

    Libraries beside it are found, as wheels need: they have no run path. A SYCL build is told of the OpenCL runtime if that is there.
    OpenMP's idle threads give up spinning early (SPIN says why).
    """
    changes = {"OMP_NUM_THREADS": str(threads)}
    defaults = dict(SPIN)
    folder = Path(path).parent
    if folder != Path():
        ours = environment({})
        changes["LD_LIBRARY_PATH"] = os.pathsep.join(filter(None, (str(folder), ours.get("LD_LIBRARY_PATH", ""))))
        if (folder / _OPENCL).exists():
            defaults["OCL_ICD_FILENAMES"] = _OPENCL
    return environment(defaults, **changes)
