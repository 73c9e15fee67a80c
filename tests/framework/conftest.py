"""Every test begins without compiled kernels on its thread."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from benchgraph.framework.kernel_cache import DEFAULT_CAPACITY, kernel_cache, set_kernel_cache_capacity


@pytest.fixture(autouse=True)
def _cold() -> Iterator[None]:
    set_kernel_cache_capacity(0)
    kernel_cache()
    set_kernel_cache_capacity(DEFAULT_CAPACITY)
    yield
    set_kernel_cache_capacity(DEFAULT_CAPACITY)
