from benchgraph.core.layers import told_apart


def test_no_two_names_are_the_same() -> None:
    assert told_apart(["add", "mul", "add", "add"]) == ["add", "mul", "add_1", "add_2"]
    assert told_apart(["add", "add", "add_1", "add"]) == ["add", "add_2", "add_1", "add_3"], "a name that is there is no other's"
    assert told_apart([]) == []
