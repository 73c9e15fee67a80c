"""Reading a log: what is counted, and what a torn, foreign or endless file is answered."""

from __future__ import annotations

import bz2
import gzip
import lzma
from pathlib import Path

import pytest

from benchgraph.core.errors import BenchgraphError
from benchgraph.importers import verbose_file
from benchgraph.importers.verbose_file import Log, read_log

HEAD = "cpu,eltwise,jit:avx2,forward_training,data:f32::blocked:ab::f0,attr-scratchpad:user,alg:eltwise_relu alpha:0 beta:0,4x8"
LINE = f"onednn_verbose,v1,primitive,exec,{HEAD},0.25\n"
INFO = """\
onednn_verbose,v1,info,oneDNN v3.13.2 (commit c852e73)
onednn_verbose,v1,info,cpu,runtime:OpenMP,nthr:2
onednn_verbose,v1,info,gpu,runtime:none
onednn_verbose,v1,primitive,info,template:operation,engine,primitive,implementation
"""


def log_of(folder: Path, content: str | bytes) -> Log:
    path = folder / "log"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return read_log(path)


def test_equal_lines_are_counted_and_their_times_added(tmp_path: Path) -> None:
    log = log_of(tmp_path, INFO + LINE + "epoch 1\n" + LINE.replace(",0.25", ",0.75") + LINE.replace("4x8", "4x9"))
    assert [(one.line, one.executed.count, one.executed.total_ms, one.executed.least_ms) for one in log.logged] == [
        (5, 2, 1.0, 0.25), (8, 1, 0.25, 0.25),
    ]  # fmt: skip
    assert (log.lines, log.remarks, log.others) == (8, 4, 1)
    assert log.info == ["oneDNN v3.13.2 (commit c852e73)", "cpu,runtime:OpenMP,nthr:2"]


def test_time_stamps_and_marks_of_every_version_are_one_line(tmp_path: Path) -> None:
    others = (
        f"onednn_verbose,v1,1795813389121.169922,primitive,exec,{HEAD},1\n",
        f"onednn_verbose,exec,{HEAD},1\n",
        f"onednn_verbose,1795813389121.169922,exec,{HEAD},1\n",
        f"dnnl_verbose,exec,{HEAD},1\r\n",
        f"a thread's own output, without an end of its line{LINE}",
    )
    (one,) = log_of(tmp_path, LINE + "".join(others)).logged
    assert one.executed.count == 6


def test_colours_of_a_terminal_are_left_out(tmp_path: Path) -> None:
    """Systems for CI write them around whole lines."""
    (one,) = log_of(tmp_path, LINE + f"\x1b[32;1m{LINE.rstrip()}\x1b[0m\x1b[K\n").logged
    assert one.executed.count == 2


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (gzip.compress(LINE.encode()), "it is compressed by gzip; unpack it with gunzip, and import that"),
        (bz2.compress(LINE.encode()), "it is compressed by bzip2; unpack it with bunzip2"),
        (lzma.compress(LINE.encode()), "it is compressed by xz; unpack it with unxz"),
        (LINE.encode("utf-16"), "it is text in UTF-16; save it as UTF-8"),
    ],
)
def test_what_is_no_text_says_how_to_make_it_text(tmp_path: Path, content: bytes, message: str) -> None:
    with pytest.raises(BenchgraphError, match=message):
        log_of(tmp_path, content)


def test_what_only_looks_like_a_mark_is_of_another_program(tmp_path: Path) -> None:
    log = log_of(tmp_path, LINE + LINE.replace("onednn_verbose", "onedmn_verbose") + LINE)
    assert [one.executed.count for one in log.logged] == [2]
    assert log.others == 1


def test_creations_are_counted_for_themselves_and_rejections_are_remarks(tmp_path: Path) -> None:
    made = "".join(f"onednn_verbose,v1,primitive,create:{how},{HEAD},0.5\n" for how in ("cache_miss", "cache_hit"))
    others = (
        f"onednn_verbose,v1,primitive,create:dispatch,eltwise,{HEAD},unsupported isa,src/cpu/x64/x.cpp:143\n"
        f"onednn_verbose,v1,primitive,create_nested:cache_miss,{HEAD},0.5\n"
        "onednn_verbose,v1,primitive,exec:check,primitive,unused primitive execution argument (80),src/common/x.cpp:136\n"
        "onednn_verbose,v1,graph,exec,cpu,_gen_index(_gen_index),18446744073709551615,attrs:{axis:2},inputs:{f32:5},outputs:{s32:6},0.1\n"
    )
    log = log_of(tmp_path, made + others)
    (one,) = log.logged
    assert (one.created.count, one.created.total_ms, one.executed.count) == (2, 1.0, 0)
    assert (log.remarks, log.broken) == (4, [])


BROKEN = {
    "cut in its time": (LINE.encode() + LINE.encode()[:-6], "it is cut off: it does not end with a time"),
    "cut in its fields": (LINE.encode() + b"onednn_verbose,v1,primitive,exec,cpu,elt", "it is cut off"),
    "cut in its head": (LINE.encode() + b"onednn_verbose,v1,prim", "the line ends before it says what was done"),
    "cut behind a number": (
        b"onednn_verbose,v1,primitive,exec,cpu,eltwise,1\n" + LINE.encode(),
        "it has 3 fields behind its operation instead of 9",
    ),
    "bytes": (LINE.encode().replace(b"jit", b"\xff\x00"), "it holds bytes that are no text"),
    "no time": (LINE.encode().replace(b",0.25", b",nan"), "its time is nan ms"),
    "another inside": (LINE.encode()[:60] + LINE.encode(), "it does not end with a time; another line begins inside it"),
    "too long": (LINE.encode().replace(b"4x8", b"4x8" * (1 << 16)), "it is longer than 64 KB"),
    "no partition": (b"onednn_verbose,v1,graph,exec,cpu,1,chain,a,0.1\n", "not those of a partition"),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_a_line_that_cannot_be_read_is_kept_with_its_number_and_reason(name: str, tmp_path: Path) -> None:
    content, reason = BROKEN[name]
    log = log_of(tmp_path, b"first\n" + content)
    (broken,) = log.broken
    assert reason in broken.reason
    assert broken.line in (2, 3)
    assert broken.text.isprintable()
    assert "_verbose," in broken.text
    assert len(broken.text) < 200


REFUSED = {
    "empty": (b"", "none of its 0 lines is of a verbose log, nor a repro line; run the program with ONEDNN_VERBOSE=1"),
    "noise": (bytes(range(256)) * 1000, "is of a verbose log"),
    "one endless line": (b"x" * (1 << 18), "none of its 1 lines"),
    "nothing but the header": (INFO.encode(), "it says what the library is, but not what it executed"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_file_without_a_log_says_how_to_make_one(name: str, tmp_path: Path) -> None:
    content, message = REFUSED[name]
    with pytest.raises(BenchgraphError, match="ONEDNN_VERBOSE=1") as caught:
        log_of(tmp_path, content)
    assert message in caught.value.line
    assert str(tmp_path / "log") in caught.value.line


def test_places_that_are_no_file_are_refused(tmp_path: Path) -> None:
    for path, what in ((tmp_path, "Is a directory"), (tmp_path / "absent", "No such file"), (Path("/dev/null"), "device")):
        with pytest.raises(BenchgraphError, match=what) as caught:
            read_log(path)
        assert caught.value.where == str(path)


def test_a_log_of_too_many_problems_is_refused_with_its_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verbose_file, "MOST", 2)
    with pytest.raises(BenchgraphError, match="more than 2 different problems up to line 4; split the log"):
        log_of(tmp_path, LINE * 2 + "".join(LINE.replace("4x8", f"4x{n}") for n in range(9)))


def test_of_many_broken_lines_the_first_are_kept_and_all_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verbose_file, "MOST_BROKEN", 2)
    log = log_of(tmp_path, LINE.replace(",0.25", "") * 5)
    assert (len(log.broken), log.broken_count) == (2, 5)
