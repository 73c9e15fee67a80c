"""How processors lie on cores and caches, from the files of a machine that there is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchgraph.machine import topology as asked


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two sockets of two cores with two threads each, an L3 and a NUMA node each; processors 0 and 4 are the threads of a core."""
    for cpu in range(8):
        files = {
            "topology/core_cpus_list": f"{cpu % 4},{cpu % 4 + 4}",
            "topology/physical_package_id": str(cpu % 4 // 2),
            "cache/index0/level": "1",
            "cache/index0/shared_cpu_list": f"{cpu % 4},{cpu % 4 + 4}",
            "cache/index3/level": "3",
            "cache/index3/shared_cpu_list": "0-1,4-5" if cpu % 4 < 2 else "2-3,6-7",
            f"node{cpu % 4 // 2}/cpulist": "",
        }
        for name, text in files.items():
            write(tmp_path / "cpu" / f"cpu{cpu}" / name, f"{text}\n")
    monkeypatch.setattr(asked, "CPUS", tmp_path / "cpu")
    monkeypatch.setattr(asked, "CGROUPS", tmp_path / "cgroup")
    monkeypatch.setattr(asked, "CGROUP_OF_SELF", tmp_path / "self")
    return tmp_path


def write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


@pytest.mark.parametrize(
    ("cpus", "told"),
    [
        ((0, 4), "2 CPUs, 1 core, 1 L3"),
        ((0, 1), "2 CPUs, 2 cores, 1 L3"),
        ((0, 2), "2 CPUs, 2 cores, 2 L3, 2 sockets, 2 NUMA nodes"),
        (tuple(range(8)), "8 CPUs, 4 cores, 2 L3, 2 sockets, 2 NUMA nodes"),
        ((), ""),
        ((9,), ""),  # of which the system does not tell
    ],
)
def test_processors_lie_on_cores(cpus: tuple[int, ...], told: str, system: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asked, "allowed_cpus", lambda: cpus)
    assert asked.topology() == told


def test_a_container_may_have_a_part_of_its_processors(system: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asked, "allowed_cpus", lambda: (0, 1))
    write(system / "self", "0::/jobs/7\n")
    write(system / "cgroup/jobs/7/cpu.max", "max 100000\n")
    assert asked.quota() is None
    write(system / "cgroup/jobs/cpu.max", "150000 100000\n")
    assert asked.topology() == "2 CPUs, 2 cores, 1 L3, 1.5 CPUs by quota"
    write(system / "cgroup/jobs/cpu.max", "250000 100000\n")
    assert asked.topology() == "2 CPUs, 2 cores, 1 L3"


def test_control_groups_of_version_1_have_quotas_too(system: Path) -> None:
    write(system / "self", "3:cpuset:/\n2:cpu,cpuacct:/docker\n0::/\n")
    write(system / "cgroup/cpu/docker/cpu.cfs_period_us", "100000\n")
    write(system / "cgroup/cpu/docker/cpu.cfs_quota_us", "-1\n")
    assert asked.quota() is None
    write(system / "cgroup/cpu/docker/cpu.cfs_quota_us", "50000\n")
    assert asked.quota() == 0.5
