"""flatten-index: 1-d tensors, one linear index each, flat slices for microkernels."""

from __future__ import annotations

import pytest

from benchgraph.core.dtypes import DType
from benchgraph.tir.build import seq
from benchgraph.tir.ir import Alloc, Brgemm, Const, Func, Load, Ramp, Scope, Store, Tensor
from benchgraph.tir.passes.flatten_index import flatten_index
from benchgraph.tir.passes.simplify import simplify
from benchgraph.tir.text import print_tir
from benchgraph.tir.visit import tensors, walk
from tests.support.tir_programs import PROGRAMS, TARGET, ZERO, assert_same, at, batch_reduce, param, put, transpose


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_every_tensor_is_one_dimensional_and_means_the_same(program) -> None:
    f = flatten_index(simplify(program(), TARGET), TARGET)
    assert all(len(t.shape) == 1 for t in (*f.params, *tensors(f.body)))
    assert_same(f, program())


def test_parameter_is_as_long_as_its_strides_reach() -> None:
    (x, _) = flatten_index(transpose(), TARGET).params
    assert (x.name, x.shape, x.strides, x.scope) == ("x", (5 + 19 * 8 + 1,), (1,), Scope.param)


def test_batch_of_slices_becomes_a_stride() -> None:
    """The batch runs along dim 1, the row dim of the packed weights [N/16][K][16]: 8 rows of 16."""
    call = next(s for s in walk(flatten_index(batch_reduce(), TARGET).body) if isinstance(s, Brgemm))
    assert call.src.strides == (24, 1, 8)
    assert call.wei.strides == (16, 1, 128)
    assert print_tir(call.wei.offset) == "no*384"


def test_empty_tensor_has_no_elements() -> None:
    x = param("x", 0, 4)
    assert flatten_index(Func("f", (x,), seq()), TARGET).params[0].shape == (0,)


def test_ramp_along_an_outer_dim_takes_its_stride() -> None:
    x = param("x", 16, 4)
    ramp = (Ramp(ZERO, 1, 16), Const(2))
    (store,) = [s for s in walk(flatten_index(Func("f", (x,), Store(x, ramp, Load(x, ramp))), TARGET).body) if isinstance(s, Store)]
    assert store.index == (Ramp(Const(2), 4, 16),)


def test_registers_stay() -> None:
    r = Tensor("r", DType.f32, (), (), Scope.register)
    f = flatten_index(Func("f", (param("x", 2, 2),), seq(Alloc(r), put(r, value=at(param("x", 2, 2), 1, 1)))), TARGET)
    assert print_tir(f.body) == "alloc r: f32 register\nr = x[3]"


def test_no_change_returns_the_same_function() -> None:
    once = flatten_index(batch_reduce(), TARGET)
    assert flatten_index(once, TARGET) is once
