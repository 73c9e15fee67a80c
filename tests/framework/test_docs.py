"""The page about the framework: its code runs and gives the stated results."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

PAGE = Path(__file__).parents[2] / "docs" / "framework.md"
TEXT = PAGE.read_text(encoding="utf-8")


def test_the_pages_code() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    names: dict[str, object] = {}
    exec(compile(code, str(PAGE), "exec"), names)
    rng = np.random.default_rng(0)
    weight, image = rng.random((96, 128), np.float32), rng.random((4, 96), np.float32)
    np.testing.assert_allclose(names["first"], image @ weight, rtol=1e-5)
    np.testing.assert_array_equal(names["first"], names["again"])
    np.testing.assert_allclose(names["total"].numpy(), 2 * image[:, 1:] @ weight[1:], rtol=1e-5)


def test_the_modules_it_names_exist() -> None:
    package = Path(__file__).parents[2] / "benchgraph" / "framework"
    named = {name for name in re.findall(r"\b(\w+\.py)\b", TEXT) if not name.startswith("test_")}
    assert named <= {p.name for p in package.glob("*.py")}


def test_every_invariant_is_some_tests() -> None:
    """I1 to I20, in the docstrings."""
    text = "".join(p.read_text() for p in Path(__file__).parent.glob("*.py") if p.name != Path(__file__).name)
    found = {int(n) for n in re.findall(r"\bI(\d+)\b", text)}
    for low, high in re.findall(r"\bI(\d+) to I(\d+)\b", text):
        found |= set(range(int(low), int(high) + 1))
    assert found == set(range(1, 21))
