"""Which case runs where."""

from __future__ import annotations

from benchgraph.fleet.parcel import Terms
from benchgraph.fleet.placement import LEAST_MEMORY, Host, Need, Placement

GIB = 1 << 30
TIMED = Need(is_alone=True)


def placement(*hosts: Host) -> Placement:
    return Placement({host.id: host for host in hosts})


def host(name: str = "a", cores: int = 4, memory: int = 8 * GIB, workers: int = 1, threads: int = 4) -> Host:
    return Host(name, name, cores, memory, {f"{name}{n}": threads for n in range(workers)})


def where(made: Placement, ticket: int, need: Need = Need()) -> str:  # noqa: B008 - frozen
    found = made.place(ticket, need)
    return found[1].worker if found else ""


def test_the_workers_of_a_host_share_its_cores() -> None:
    made = placement(host(cores=3, workers=4, threads=1))
    assert [where(made, t) for t in range(5)] == ["a0", "a1", "a2", "", ""]


def test_cases_at_once_are_no_more_than_the_threads_of_the_workers() -> None:
    made = placement(host(cores=64, workers=2, threads=1))
    assert [where(made, t) for t in range(3)] == ["a0", "a1", ""]


def test_a_case_has_its_share_of_threads_and_memory() -> None:
    found = placement(host()).place(1, Need())
    assert found
    assert found[1].terms == Terms(4, is_alone=False, memory=2 * GIB, share=int(0.85 * 2 * GIB))


def test_a_share_is_never_too_small_for_a_process() -> None:
    found = placement(host(memory=GIB)).place(1, Need())
    assert found
    assert found[1].terms.memory == LEAST_MEMORY


def test_large_cases_leave_less_room_for_others() -> None:
    made = placement(host())
    assert where(made, 1, Need(memory=4 * GIB))
    assert [bool(where(made, t)) for t in (2, 3, 4)] == [True, False, False]


def test_hosts_fill_evenly() -> None:
    made = placement(host("a"), host("b"))
    assert [where(made, t)[0] for t in range(4)] == ["a", "b", "a", "b"]


def test_a_timed_case_waits_for_an_empty_host_and_is_not_overtaken() -> None:
    made = placement(host("a"), host("b"))
    assert where(made, 1) == "a0"
    assert where(made, 2) == "b0"
    assert where(made, 3, TIMED) == ""  # holds a
    assert [where(made, t) for t in (4, 5, 6, 7)] == ["b0", "b0", "b0", ""]
    made.end(1)
    assert where(made, 8) == ""
    assert where(made, 3, TIMED) == "a0"
    assert where(made, 9) == ""
    made.end(3)
    assert where(made, 9) == "a0"


def test_two_timed_cases_wait_for_two_hosts() -> None:
    made = placement(host("a"), host("b"))
    assert [where(made, t) for t in (1, 2)] == ["a0", "b0"]
    assert [where(made, t, TIMED) for t in (3, 4, 5)] == ["", "", ""]
    assert set(made.held.values()) == {3, 4}


def test_a_case_that_no_host_could_carry_has_the_largest_for_itself() -> None:
    made = placement(host("a", memory=4 * GIB), host("b", memory=8 * GIB))
    found = made.place(1, Need(memory=100 * GIB))
    assert found
    assert (found[0].id, found[1].terms.is_alone, found[1].terms.share) == ("b", True, None)


def test_a_case_goes_where_its_memory_is() -> None:
    made = placement(host("a", memory=4 * GIB), host("b", memory=64 * GIB))
    assert where(made, 1, Need(memory=10 * GIB)) == "b0"
    assert where(made, 2, Need(memory=10 * GIB)) == "b0"


def test_a_host_that_carries_a_large_case_only_alone_is_emptied_for_it() -> None:
    made = placement(host("a"))
    assert where(made, 1) == "a0"
    assert where(made, 2, Need(memory=7 * GIB)) == ""
    assert where(made, 3) == ""
    made.end(1)
    assert where(made, 2, Need(memory=7 * GIB)) == "a0"


def test_nothing_is_placed_on_a_host_without_workers() -> None:
    made = placement(host("a", workers=0))
    assert where(made, 1) == ""
    assert not made.has_room
