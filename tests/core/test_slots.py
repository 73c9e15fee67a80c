"""Values share slots: what lives at the same time lies apart."""

from __future__ import annotations

from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from benchgraph.core.slots import Plan, Prefer, Value, plan


@st.composite
def programs(draw: st.DrawFn) -> list[Value]:
    """Values of a random program of up to 12 steps, each of which may overwrite some that end there."""
    steps = draw(st.integers(1, 12))
    values: list[Value] = []
    for id in range(draw(st.integers(1, 12))):
        begin = draw(st.integers(0, steps - 1))
        end = draw(st.integers(begin, steps))
        over = tuple(v.id for v in values if v.end == begin and v.begin < begin and draw(st.booleans()))
        values.append(Value(id, draw(st.integers(0, 500)), begin, end, over))
    return values


def plans(values: list[Value]) -> list[Plan]:
    """By every rule."""
    return [plan(values, prefer=prefer, grows=grows) for prefer, grows in product(Prefer, (False, True))]


def apart(values: list[Value], found: Plan) -> None:
    """I17: no two values that live in one step share a slot, but for one laid over the other as it ends."""
    for a in values:
        assert found.slots[found.slot[a.id]] >= a.nbytes
        for b in values:
            if a.id < b.id and found.slot[a.id] == found.slot[b.id] and a.begin <= b.end and b.begin <= a.end:
                assert found.laid_over.get(a.id) == b.id or found.laid_over.get(b.id) == a.id, (a, b)


@settings(max_examples=100, deadline=None)
@given(programs())
def test_values_that_are_live_together_do_not_overlap(values: list[Value]) -> None:
    by_id = {v.id: v for v in values}
    for found in plans(values):
        apart(values, found)
        for new, old in found.laid_over.items():
            assert old in by_id[new].over
            assert by_id[old].end == by_id[new].begin
        assert len(set(found.laid_over.values())) == len(found.laid_over), "one value is overwritten by one"


@settings(max_examples=50, deadline=None)
@given(programs())
def test_slots_need_no_more_memory_than_separate_buffers(values: list[Value]) -> None:
    assert all(found.nbytes <= sum(v.nbytes for v in values) for found in plans(values))


def test_a_chain_takes_two_slots_and_in_place_one() -> None:
    chain = [Value(id, 100, id, id + 1) for id in range(6)]
    assert [found.slots for found in plans(chain)] == [(100, 100)] * 4
    over = [Value(id, 100, id, id + 1, (id - 1,) if id else ()) for id in range(6)]
    assert [found.slots for found in plans(over)] == [(100,)] * 4


def test_values_that_are_read_later_are_not_overwritten() -> None:
    """Value 0 is read in step 2, so value 1, made in step 1, has other memory although step 1 may overwrite its input."""
    found = plan([Value(0, 100, 0, 2), Value(1, 100, 1, 2, (0,))])
    assert len(found.slots) == 2


FOUR = [Value(0, 300, 0, 0), Value(1, 100, 0, 0), Value(2, 90, 1, 1), Value(3, 400, 1, 1)]


def test_the_smallest_slot_that_fits_is_taken_and_the_largest_grows() -> None:
    found = plan(FOUR, prefer=Prefer.smallest)
    assert found.slot[2] == found.slot[1]
    assert found.slots == (400, 100)


def test_a_slot_of_fixed_size_is_kept_and_a_new_one_is_added() -> None:
    found = plan(FOUR, prefer=Prefer.smallest, grows=False)
    assert found.slot == {0: 0, 1: 1, 2: 1, 3: 2}
    assert found.slots == (300, 100, 400)


def test_the_slot_that_was_used_last_is_taken_though_a_smaller_one_fits() -> None:
    values = [Value(0, 100, 0, 1), Value(1, 300, 0, 2), Value(2, 100, 3, 3)]
    assert plan(values).slot[2] == 1
    assert plan(values, prefer=Prefer.smallest).slot[2] == 0


def test_of_equal_slots_the_least_recently_used_one_grows() -> None:
    assert plan([Value(0, 100, 0, 2), Value(1, 100, 0, 1), Value(2, 200, 3, 3)]).slots == (100, 200)
