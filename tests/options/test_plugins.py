"""Drivers and reports are files; a missing one suggests the nearest."""

import pytest

from benchgraph.core.errors import InvalidArguments
from benchgraph.core.files import data_dir
from benchgraph.options.plugins import load_driver, load_report, names


@pytest.mark.parametrize("folder", ["drivers", "reports", "inputs"])
def test_the_open_ends_are_found(folder: str) -> None:
    assert data_dir(folder).is_dir()


def test_every_driver_loads_and_has_its_files_name() -> None:
    assert [load_driver(name).name for name in names("drivers")] == names("drivers")


def test_every_report_renders() -> None:
    assert all(callable(load_report(name)) for name in names("reports"))


def test_a_missing_report_suggests_the_nearest() -> None:
    with pytest.raises(InvalidArguments, match="no report named 'jason'; did you mean 'json'"):
        load_report("jason")


def test_a_missing_driver_lists_the_drivers() -> None:
    with pytest.raises(InvalidArguments, match=r"no driver named 'zzz'; there are .*graph, .*matmul"):
        load_driver("zzz")
