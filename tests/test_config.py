"""The table of environment variables."""

from __future__ import annotations

import pytest

from benchgraph.core.config import Config, from_environment, table, unknown
from benchgraph.core.errors import InvalidArguments

CAPACITY = "BENCHGRAPH_COMPILED_PARTITION_CACHE_CAPACITY"
ONEDNN, DNNL = "ONEDNN_GRAPH_COMPILED_PARTITION_CACHE_CAPACITY", "DNNL_GRAPH_COMPILED_PARTITION_CACHE_CAPACITY"


def test_unset_variables_have_their_defaults() -> None:
    assert from_environment({"PATH": "/bin"}) == Config()


@pytest.mark.parametrize(
    ("environ", "capacity"),
    [
        ({CAPACITY: "7"}, 7),
        ({ONEDNN: "8"}, 8),
        ({DNNL: "9"}, 9),
        ({DNNL: "9", ONEDNN: "8"}, 8),
        ({DNNL: "9", ONEDNN: "8", CAPACITY: "7"}, 7),
    ],
)
def test_onednns_names_are_read_where_ours_is_not_set(environ: dict[str, str], capacity: int) -> None:
    assert from_environment(environ).compiled_partition_cache_capacity == capacity


@pytest.mark.parametrize("name", [CAPACITY, ONEDNN, DNNL])
def test_a_bad_value_is_named_by_the_variable_that_held_it(name: str) -> None:
    with pytest.raises(InvalidArguments, match=f"{name}: bad value '-1'; give a non-negative integer"):
        from_environment({name: "-1"})


def test_the_help_names_them_all() -> None:
    variable, default, help = next(row for row in table() if row[0] == CAPACITY)
    assert (variable, default) == (CAPACITY, "1024")
    assert ONEDNN in help
    assert DNNL in help


@pytest.mark.parametrize(
    ("text", "events"),
    [
        ("0", ()),
        ("1", ("exec",)),
        ("2", ("create", "exec")),
        ("none", ()),
        ("profile_exec", ("exec",)),
        ("profile_create", ("create",)),
        ("profile", ("create", "exec")),
        ("all", ("create", "exec")),
        ("profile_create,profile_exec", ("create", "exec")),
        ("error,check,dispatch,warn", ()),
        ("debuginfo=3", ()),
        ("profile,filter=graph", ("create", "exec")),
        ("profile,filter=prim|conv", ()),
        ("filter=gr.*h,1", ("exec",)),
    ],
)
def test_verbose_has_onednns_grammar(text: str, events: tuple[str, ...]) -> None:
    assert from_environment({"ONEDNN_VERBOSE": text}).verbose == events


def test_our_name_wins_over_onednns() -> None:
    both = {"BENCHGRAPH_VERBOSE": "none", "ONEDNN_VERBOSE": "all", "DNNL_VERBOSE": "1"}
    assert from_environment(both).verbose == ()
    del both["BENCHGRAPH_VERBOSE"]
    assert from_environment(both).verbose == ("create", "exec")


def test_dump_and_fpmath_mode_are_read_under_onednns_names() -> None:
    found = from_environment({"ONEDNN_GRAPH_DUMP": "graph,subgraph", "ONEDNN_DEFAULT_FPMATH_MODE": "bf16"})
    assert (found.dump, found.default_fpmath_mode) == (("graph", "subgraph"), "bf16")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ONEDNN_VERBOSE", "loud"),
        ("BENCHGRAPH_VERBOSE", "3"),
        ("ONEDNN_VERBOSE", "1,filter=("),
        ("ONEDNN_GRAPH_DUMP", "graph,ops"),
        ("DNNL_DEFAULT_FPMATH_MODE", "f64"),
        ("BENCHGRAPH_THREADS", "-1"),
    ],
)
def test_a_bad_value_names_the_variable_and_a_remedy(name: str, value: str) -> None:
    with pytest.raises(InvalidArguments) as raised:
        from_environment({name: value})
    assert str(raised.value).startswith(f"{name}: bad value {value!r}; ")
    assert raised.value.fix.startswith(("give ", "choose one of ", "did you mean "))


SHARED = "CONSTANT_TENSOR_CACHE_CAPACITY"


@pytest.mark.parametrize(
    ("text", "megabytes"), [("7", 7), ("0", 0), ("cpu:1024", 1024), ("cpu:1024;gpu:2048", 1024), ("gpu:2048; cpu:3", 3), ("gpu:5", 0)]
)
@pytest.mark.parametrize("prefix", ["BENCHGRAPH_", "ONEDNN_GRAPH_", "DNNL_GRAPH_"])
def test_the_constant_cache_takes_a_number_or_onednns_list(prefix: str, text: str, megabytes: int) -> None:
    assert from_environment({prefix + SHARED: text}).constant_tensor_cache_capacity == megabytes


@pytest.mark.parametrize("text", ["-1", "much", "cpu:-1", "cpu", "npu:3", "cpu:1,gpu:2"])
def test_other_capacities_are_refused(text: str) -> None:
    with pytest.raises(InvalidArguments, match=f"BENCHGRAPH_{SHARED}: bad value '{text}'; give a "):
        from_environment({"BENCHGRAPH_" + SHARED: text})


@pytest.mark.parametrize("name", [row[0] for row in table()])
def test_an_empty_variable_is_unset(name: str) -> None:
    assert from_environment({name: ""}) == Config()


def test_an_empty_variable_leaves_room_for_onednns_name() -> None:
    assert from_environment({CAPACITY: "", DNNL: "9"}).compiled_partition_cache_capacity == 9


@pytest.mark.parametrize(
    ("name", "value", "fix"),
    [
        ("THREADS", "abc", "give a non-negative integer"),
        ("RUNTIME", "foo", "choose one of auto, omp, threadpool, seq"),
        ("RUNTIME", "ompp", "did you mean 'omp'?"),
        ("CACHE_DIR", "here", "give an absolute path, or off"),
        ("DUMP", "grahp", "did you mean 'graph'?"),
        ("VERBOSE", "profil", "did you mean 'profile'?"),
    ],
)
def test_a_bad_value_has_a_remedy(name: str, value: str, fix: str) -> None:
    with pytest.raises(InvalidArguments) as raised:
        from_environment({f"BENCHGRAPH_{name}": value})
    assert str(raised.value) == f"BENCHGRAPH_{name}: bad value '{value}'; {fix}"


def test_unknown_variables_are_named_with_the_nearest() -> None:
    assert unknown({"BENCHGRAPH_THREADS": "1", "PATH": "/bin"}) == []
    assert unknown({"BENCHGRAPH_THREAD": "1"}) == ["BENCHGRAPH_THREAD: no such variable; did you mean 'BENCHGRAPH_THREADS'?"]
    assert unknown({"BENCHGRAPH_QQQ": ""}) == ["BENCHGRAPH_QQQ: no such variable; 'benchgraph help env' lists them"]
