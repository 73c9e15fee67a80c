"""The table of environment variables."""

from __future__ import annotations

import pytest

from benchgraph.core.config import Config, from_environment, table
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
    with pytest.raises(InvalidArguments, match=f"{name}: bad value '-1'; compiled partitions kept for reuse"):
        from_environment({name: "-1"})


def test_the_help_names_them_all() -> None:
    variable, default, help = next(row for row in table() if row[0] == CAPACITY)
    assert (variable, default) == (CAPACITY, "1024")
    assert ONEDNN in help
    assert DNNL in help
