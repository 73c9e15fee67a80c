"""Tensors: whose memory, the same memory (zero-copy), and memory passed on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from benchgraph import ALLOCATE, DType, Engine, LayoutType, LogicalTensor, Op, Partition, PropertyType, Stream, Tensor
from benchgraph.core.errors import InvalidArguments, Unimplemented

T = LogicalTensor(7, DType.f32, (2, 3))
SCALE = LogicalTensor(5, DType.f32, (), property_type=PropertyType.host_scalar)


def address(array: NDArray[np.generic] | None) -> int:
    assert array is not None
    return int(array.ctypes.data)


class Exporter:
    """What another library's array looks like to us: something with DLPack's two methods and no buffer."""

    def __init__(self, array: NDArray[np.generic]) -> None:
        self.array = array

    def __dlpack__(self, **request: object) -> object:
        return self.array.__dlpack__(**request)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()


class OnDevice(Exporter):
    """One whose memory the CPU cannot reach."""

    def __dlpack__(self, **request: object) -> object:
        raise BufferError("the memory is on device 2")

    def __dlpack_device__(self) -> tuple[int, int]:
        return (2, 0)


# ---- handles ---------------------------------------------------------------------------------------------------------


def test_a_users_array_is_the_tensors_memory() -> None:
    mine = np.zeros((2, 3), np.float32)
    t = Tensor(T, Engine(), mine)
    assert t.get_data_handle() is t.array is mine
    assert (t.logical, t.engine is not None) == (T, True)


def test_the_library_allocates_on_a_cache_line() -> None:
    for t in (Tensor(T, Engine()), Tensor(T, Engine(), ALLOCATE)):
        assert address(t.array) % 64 == 0
        assert t.array.shape == (2, 3)


def test_no_memory_until_it_is_set() -> None:
    t, mine = Tensor(T, Engine(), None), np.zeros((2, 3), np.float32)
    assert t.get_data_handle() is None
    with pytest.raises(InvalidArguments, match="Tensor 7: it has no memory; give it some with set_data_handle"):
        _ = t.array
    t.set_data_handle(mine)
    assert t.get_data_handle() is mine
    t.set_data_handle(None)
    assert t.get_data_handle() is None


def test_execution_follows_an_exchanged_handle() -> None:
    """Bindings are cached by what the tensors hold, not by the tensors."""
    dst = replace(T, id=8)
    engine = Engine()
    compiled = Partition(Op(0, "ReLU", inputs=[T], outputs=[dst])).compile([T], [dst], engine)
    first, second = (np.full((2, 3), v, np.float32) for v in (1, 2))
    out = [np.zeros((2, 3), np.float32) for _ in range(2)]
    src, res = Tensor(T, engine, first), Tensor(dst, engine, out[0])
    compiled.execute(Stream(engine), [src], [res])
    src.set_data_handle(second)
    res.set_data_handle(out[1])
    compiled.execute(Stream(engine), [src], [res])
    assert (out[0] == 1).all()
    assert (out[1] == 2).all()
    src.set_data_handle(None)
    with pytest.raises(InvalidArguments, match="Tensor 7: it has no memory"):
        compiled.execute(Stream(engine), [src], [res])


def test_the_users_memory_is_never_freed_by_the_library() -> None:
    mine = np.arange(6, dtype=np.float32).reshape(2, 3)
    t = Tensor(T, Engine(), mine)
    t.set_data_handle(None)
    del t
    assert mine.sum() == 15


# ---- DLPack ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [DType.f32, DType.f16, DType.s64, DType.s32, DType.s8, DType.u8, DType.boolean])
def test_memory_goes_out_and_comes_in_without_a_copy(dtype: DType) -> None:
    t = Tensor(replace(T, dtype=dtype), Engine())
    t.array[...] = 1
    out = np.from_dlpack(t)
    assert address(out) == address(t.array)
    assert (out.dtype, out.shape) == (dtype.numpy, (2, 3))
    back = Tensor.from_dlpack(out, replace(T, dtype=dtype))
    assert address(back.array) == address(t.array)
    assert back.logical == t.logical
    assert t.__dlpack_device__() == (1, 0)


def test_a_foreign_array_gets_its_own_description() -> None:
    mine = np.zeros((3, 4), np.float16).T
    t = Tensor.from_dlpack(Exporter(mine))
    want = LogicalTensor(0, DType.f16, (4, 3), (1, 4), property_type=PropertyType.variable)
    assert t.logical == want
    assert address(t.array) == address(mine)


def test_an_imported_tensor_is_executed_on_in_place() -> None:
    dst = replace(T, id=8)
    engine = Engine()
    compiled = Partition(Op(0, "ReLU", inputs=[T], outputs=[dst])).compile([T], [dst], engine)
    src, out = np.array([[-1, 2, -3], [4, -5, 6]], np.float32), np.zeros((2, 3), np.float32)
    compiled.execute(Stream(engine), [Tensor.from_dlpack(Exporter(src), T)], [Tensor.from_dlpack(Exporter(out), dst, engine)])
    assert out.tolist() == [[0, 2, 0], [4, 0, 6]]


@pytest.mark.parametrize("dtype", [DType.bf16, DType.f8_e4m3, DType.f8_e5m2])
def test_types_that_numpys_dlpack_lacks_say_so(dtype: DType) -> None:
    t = Tensor(replace(T, dtype=dtype), Engine())
    with pytest.raises(
        BufferError, match=rf"Tensor 7: {dtype.value} memory has no DLPack form: .*; pass on the bits: array.view"
    ) as raised:
        np.from_dlpack(t)
    assert isinstance(raised.value, Unimplemented)


@pytest.mark.parametrize(
    ("source", "logical", "says"),
    [
        ([1.0, 2.0], None, "from_dlpack: numpy cannot take a list: .*; give an array on the CPU"),
        (OnDevice(np.zeros(3)), None, "from_dlpack: numpy cannot take a OnDevice: the memory is on device 2; give"),
        (np.zeros(3, DType.bf16.numpy), None, "from_dlpack: numpy cannot take a ndarray: "),
        (np.zeros(3), None, "from_dlpack: no dtype is float64; use float32, bfloat16, "),
        (np.zeros(3, np.float32), T, r"Tensor 7: a float32 array of shape \(3,\); give float32 of shape \(2, 3\)"),
    ],
)
def test_foreign_arrays_that_do_not_fit_are_refused(source: object, logical: LogicalTensor | None, says: str) -> None:
    with pytest.raises(InvalidArguments, match=says):
        Tensor.from_dlpack(source, logical)


# ---- host scalars ----------------------------------------------------------------------------------------------------


def test_a_host_scalar_is_copied_and_belongs_to_no_engine() -> None:
    value = np.array(3.0, np.float32)
    t = Tensor.make_scalar_tensor(SCALE, value)
    value[...] = 4
    assert t.array == 3
    assert not t.array.flags.writeable
    assert t.get_data_handle() is None
    assert t.engine is None


def test_a_host_scalar_is_an_input_like_any_other() -> None:
    dst, engine = replace(T, id=8), Engine()
    compiled = Partition(Op(0, "Multiply", inputs=[T, SCALE], outputs=[dst])).compile([T, SCALE], [dst], engine)
    src, out = Tensor(T, engine, np.arange(6, dtype=np.float32).reshape(2, 3)), Tensor(dst, engine)
    for value in (2, 0.5):
        compiled.execute(Stream(engine), [src, Tensor.make_scalar_tensor(SCALE, value)], [out])
        np.testing.assert_array_equal(out.array, src.array * np.float32(value))


@pytest.mark.parametrize(
    ("dtype", "value", "says"),
    [
        (DType.s32, 2**31, "Tensor 5: 2147483648 is no s32; give an integer in its range"),
        (DType.s64, 0.5, "Tensor 5: 0.5 is no s64; give an integer in its range"),
        (DType.f32, None, "Tensor 5: the value is None; give one number that f32 can hold"),
        (DType.f32, [1.0, 2.0], r"Tensor 5: the value is \[1.0, 2.0\]; give one number"),
        (DType.f32, ALLOCATE, "Tensor 5: the value is .*; give one number"),
    ],
)
def test_a_value_that_a_host_scalar_cannot_hold_is_refused(dtype: DType, value: object, says: str) -> None:
    with pytest.raises(InvalidArguments, match=says):
        Tensor.make_scalar_tensor(replace(SCALE, dtype=dtype), value)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("act", "says"),
    [
        (lambda: Tensor(SCALE, Engine()), "Tensor 5: it is a host scalar; use Tensor.make_scalar_tensor"),
        (lambda: Tensor.make_scalar_tensor(T, 1.0), "Tensor 7: it is no host scalar; use Tensor"),
        (lambda: Tensor.make_scalar_tensor(SCALE, 1.0).set_data_handle(np.zeros(())), "Tensor 5: a host scalar has no memory to exchange"),
        (lambda: Tensor(T, None), "Tensor 7: the engine is a NoneType; give it an Engine"),  # type: ignore[arg-type]
        (lambda: Tensor(7, Engine()), "Tensor: it is described by a int; give it a LogicalTensor"),  # type: ignore[arg-type]
        (lambda: Tensor(T, Engine(), [[0.0] * 3] * 2), "Tensor 7: the handle is a list; give a numpy array, ALLOCATE or None"),  # type: ignore[arg-type]
        (lambda: Tensor(replace(T, shape=None), Engine()), "Tensor 7: its dtype and dims must be known and its layout strided"),
        (lambda: Tensor(replace(T, layout_type=LayoutType.any), Engine()), "Tensor 7: its dtype and dims must be known"),
        (lambda: Tensor(replace(T, dtype=DType.undef), Engine()), "Tensor 7: its dtype and dims must be known"),
        (lambda: Tensor(T, Engine(), None).set_data_handle(np.zeros(6, np.float32)), r"Tensor 7: a float32 array of shape \(6,\)"),
    ],
)
def test_invalid_arguments_of_a_tensor_are_refused(act: Callable[[], object], says: str) -> None:
    with pytest.raises(InvalidArguments, match=says):
        act()
