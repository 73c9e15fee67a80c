"""The lock of a host, between processes."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

from benchgraph.fleet.host_lock import HostLock

HOLD = """
import sys, time
from pathlib import Path
from benchgraph.fleet.host_lock import HostLock
with HostLock(Path(sys.argv[1])).held(is_alone=sys.argv[2] == "alone", within_s=0) as held:
    print(held, flush=True)
    time.sleep(60)
"""


def holder(path: Path, how: str) -> subprocess.Popen[str]:
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(path), how], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "True\n"
    return process


def can(path: Path, *, is_alone: bool, within_s: float = 0.0) -> bool:
    with HostLock(path).held(is_alone=is_alone, within_s=within_s) as is_held:
        return is_held


def test_a_timed_case_shuts_out_all_others_until_its_process_dies(tmp_path: Path) -> None:
    with holder(path := tmp_path / "lock", "alone") as other:
        assert not can(path, is_alone=False)
        assert not can(path, is_alone=True)
        other.kill()
        other.wait()
        assert can(path, is_alone=True)


def test_other_cases_share_it_and_shut_out_timed_ones(tmp_path: Path) -> None:
    with holder(path := tmp_path / "lock", "shared") as other:
        assert can(path, is_alone=False)
        assert not can(path, is_alone=True)
        other.kill()


def test_a_waiting_timed_case_is_not_overtaken(tmp_path: Path) -> None:
    path, order = tmp_path / "lock", list[str]()
    with HostLock(path).held(is_alone=False, within_s=0) as is_held:
        assert is_held
        timed = threading.Thread(target=lambda: order.append(f"timed {can(path, is_alone=True, within_s=30)}"))
        timed.start()
        while can(path, is_alone=False):  # until it waits at the gate
            pass
        assert order == []
    timed.join()
    assert order == ["timed True"]


def test_a_file_of_another_user_will_do(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    path.touch(mode=0o444)
    (tmp_path / "lock.gate").touch(mode=0o444)
    assert can(path, is_alone=True)
