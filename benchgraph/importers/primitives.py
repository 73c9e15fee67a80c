"""The table of primitives: how an executed primitive becomes a line of its driver.

A row names the driver and the parts of its line; a part is a function of the event that yields words. The attributes and the problem
follow for every row. A driver that is not there yet, and whatever it cannot express, is found when the line is read: see log_cases.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from benchgraph.importers.attributes import BOUNDED_RELU, attributes
from benchgraph.importers.descriptors import ANY, CHANNELS_LAST, ROW_MAJOR, Event, Inexpressible, Memory

Part: TypeAlias = Callable[[Event], Iterator[str]]

# Propagation kinds as benchdnn's --dir. With a bias or scale: those of the second column
DIRECTIONS = {
    "undef": "",
    "forward": "FWD_D",
    "forward_training": "FWD_D",
    "forward_inference": "FWD_I",
    "forward_scoring": "FWD_I",
    "backward": "BWD_DW",
    "backward_data": "BWD_D",
    "backward_weights": "BWD_W",
}
WITH_BIAS = {"FWD_D": "FWD_B", "FWD_I": "FWD_B", "BWD_W": "BWD_WB"}
_PRODUCT_OF_1 = re.compile(r"(?:b(?P<b>\d+))?m(?P<m>\d+)n(?P<n>\d+)k(?P<k>\d+)")
_SOURCE = re.compile(r"src_?\d*")


@dataclass(frozen=True)
class Primitive:
    """driver: benchdnn's name, which is that of the driver here. problem: the descriptor, where it is not the log's own."""

    driver: str
    parts: tuple[Part, ...]
    problem: Callable[[Event], str] = lambda event: event.fields.problem


def words_of(event: Event) -> list[str]:
    """The line of the driver, as words. Raises Inexpressible."""
    name = event.fields.primitive
    if event.fields.component == "ukernel":
        raise Inexpressible("a microkernel that a program called by itself: no driver runs it alone")
    if name not in PRIMITIVES:
        raise Inexpressible(f"no driver runs the primitive {name}")
    row = PRIMITIVES[name]
    if "*" in event.fields.problem or "DNNL_RUNTIME" in event.fields.problem:
        raise Inexpressible("it has sizes that are known at run time alone")
    given = [word for part in row.parts for word in part(event)]
    return [f"--{row.driver}", *given, *attributes(event), row.problem(event)]


# ---- parts ----------------------------------------------------------------------------------------------------------


def direction(event: Event) -> Iterator[str]:
    yield f"--dir={_direction(event)}"


def direction_with_bias(event: Event) -> Iterator[str]:
    """And the data type of a bias, unless it is the one that goes without saying: f32, or that of weights in bf16 or f16."""
    way = _direction(event)
    bias = event.all_of("bia", "bias", "diff_bia")
    if bias:
        way = WITH_BIAS.get(way, way)
    yield f"--dir={way}"
    if bias and bias[0].dtype != _bias_dtype(event):
        yield f"--bia-dt={bias[0].dtype}"


def bias_of_product(event: Event) -> Iterator[str]:
    """A matmul says the data type of its bias and the dims it has."""
    if bias := event.all_of("bia", "bias"):
        yield f"--bia-dt={bias[0].dtype}"
        if bias[0].mask:
            yield f"--bia-mask={bias[0].mask}"


def dtypes(*names: str, option: str = "--dt") -> Part:
    """One data type for all tensors where they share it. A name may have alternatives: data|src."""

    def part(event: Event) -> Iterator[str]:
        found = [event.one_of(*name.split("|")).dtype for name in names]
        yield f"{option}={found[0] if len(set(found)) == 1 else ':'.join(found)}"

    return part


def source_and_result(src: str, dst: str) -> Part:
    """The data types of src and dst, unless both are f32."""

    def part(event: Event) -> Iterator[str]:
        found = [event.one_of(*name.split("|")).dtype for name in (src, dst)]
        if found != ["f32", "f32"]:
            yield from (f"--sdt={found[0]}", f"--ddt={found[1]}")

    return part


def of_sources(option: str, say: Callable[[Memory], str]) -> Part:
    """A word for each source of a primitive that has several; one word where they share it, but of data types one each."""

    def part(event: Event) -> Iterator[str]:
        found = [say(m) for m in sources(event)]
        yield f"{option}={found[0] if len(set(found)) == 1 and option != '--sdt' else ':'.join(found)}"

    return part


def tags(option: str, *names: str) -> Part:
    """The layouts of tensors; what oneDNN chose, or what strides cannot say of weights and the like, is left to the library: `any`."""

    def part(event: Event) -> Iterator[str]:
        found = [free(event.one_of(*name.split("|"))) for name in names]
        yield f"{option}={found[0] if len(set(found)) == 1 else ':'.join(found)}"

    return part


def activation_tag(option: str, *names: str) -> Part:
    """The layout of a tensor of activations; for blocks of channels, which strides cannot say, channels last."""

    def part(event: Event) -> Iterator[str]:
        found = event.one_of(*names)
        _need_dense(found)
        yield f"{option}={CHANNELS_LAST if found.is_blocked else ROW_MAJOR if found.kind == ANY else found.plain}"

    return part


def exact_tags(event: Event) -> Iterator[str]:
    """Both layouts of a reorder, which are what it is about."""
    for option, name in (("--stag", "src"), ("--dtag", "dst")):
        found = event.one_of(name)
        if not found.strides:
            yield f"{option}={found.plain}"


def strides(*names: str) -> Part:
    """Of tensors whose tag does not say them. tags() then leaves their tag out."""

    def part(event: Event) -> Iterator[str]:
        found = [event.one_of(*name.split("|")) for name in names]
        if any(m.strides for m in found):
            yield f"--strides={':'.join(m.strides for m in found)}"

    return part


def binary_strides(event: Event) -> Iterator[str]:
    found = [*sources(event)[:2], event.one_of("dst")]
    if any(m.strides for m in found):
        yield f"--strides={':'.join(m.strides for m in found)}"


def prelu_tags(event: Event) -> Iterator[str]:
    src, wei = event.one_of(*_SRC.split("|")), event.one_of(*_WEI.split("|"))
    yield f"--stag={row_major(src)}:{free(wei)}"


def constant(word: str) -> Part:
    """A word that every line of the primitive has."""

    def part(event: Event) -> Iterator[str]:
        yield word

    return part


def algorithm(family: str) -> Part:
    def part(event: Event) -> Iterator[str]:
        if name := event.auxiliary.get("alg"):
            yield f"--alg={name.removeprefix(family).replace('_use_dst_for_bwd', '_dst')}"

    return part


def eltwise_algorithm(event: Event) -> Iterator[str]:
    """With its numbers; bounded_relu and gelu are names of 1.x and 2.x."""
    name = event.auxiliary.get("alg", "")
    if name == BOUNDED_RELU:
        yield from ("--alg=clip", f"--beta={event.auxiliary.get('alpha', '0')}")
    elif name == "eltwise_gelu":
        yield "--alg=gelu_tanh"
    else:
        yield from algorithm("eltwise_")(event)
        yield from numbers("alpha", "beta")(event)


def numbers(*names: str) -> Part:
    """Numbers of an algorithm; a log has 0 for those that it does not take."""

    def part(event: Event) -> Iterator[str]:
        for name in names:
            if (value := event.auxiliary.get(name, "0")) != "0":
                yield f"--{name}={value}"

    return part


def auxiliary(name: str, option: str = "") -> Part:
    def part(event: Event) -> Iterator[str]:
        if value := event.auxiliary.get(name):
            yield f"{option or f'--{name}'}={value}"

    return part


def sources(event: Event) -> tuple[Memory, ...]:
    """The sources in order; of binary the first two, since the condition of select has no data type or layout to choose."""
    found = tuple(m for m in event.memory if m.is_there and _SOURCE.fullmatch(m.name))
    if not found:
        raise Inexpressible("the line describes no src")
    return found[:2] if event.fields.primitive == "binary" else found


def product_shapes(event: Event) -> str:
    """SRC:WEI[:DST]; 1.x has b1408m52n64k52."""
    found = _PRODUCT_OF_1.fullmatch(event.fields.problem)
    if found is None:
        return event.fields.problem
    batch = f"{found['b']}x" if found["b"] else ""
    return f"{batch}{found['m']}x{found['k']}:{batch}{found['k']}x{found['n']}"


def _direction(event: Event) -> str:
    kind = event.fields.prop_kind
    if kind not in DIRECTIONS:
        raise Inexpressible(f"no direction is called {kind}")
    return DIRECTIONS[kind] or "FWD_D"


def _bias_dtype(event: Event) -> str:
    weights = event.one_of("wei", "diff_wei").dtype
    return weights if weights in ("bf16", "f16") else "f32"


def free(m: Memory) -> str:
    """The tag, or `any` where oneDNN chose the layout, where strides cannot say it, or where strides are all it has."""
    return ANY if m.is_chosen or m.is_blocked or m.strides else m.plain


def row_major(m: Memory) -> str:
    """The tag of a source whose layout is never free."""
    _need_dense(m)
    return CHANNELS_LAST if m.is_blocked else m.plain


def _need_dense(m: Memory) -> None:
    if m.strides:
        raise Inexpressible(f"{m.name} has strides {m.strides}, which the driver has no option for")


# ---- rows -----------------------------------------------------------------------------------------------------------

_SRC, _WEI, _DST = "src|src0|src_0|data|diff_src|diff", "wei|weights|diff_wei", "dst|data|diff_dst|diff"
_SAME = dtypes("data|src|dst|diff_src|diff")  # src and dst have one data type
_SDT_DDT = source_and_result(_SRC, _DST)
_TAG, _STAG = (activation_tag(option, *_SRC.split("|"), "dst") for option in ("--tag", "--stag"))
_DTAG = tags("--dtag", _DST)
_OPERANDS = (dtypes(_SRC, _WEI, _DST), tags("--stag", _SRC), tags("--wtag", _WEI), _DTAG)
_OPERAND_STRIDES = strides(_SRC, _WEI, _DST)
_NORM = (direction, dtypes(_SRC, _DST), _TAG, auxiliary("flags"))
_DDT = dtypes(_DST, option="--ddt")
_SOURCES = (of_sources("--sdt", lambda m: m.dtype), _DDT)

PRIMITIVES: dict[str, Primitive] = {
    "matmul": Primitive("matmul", (*_OPERANDS, _OPERAND_STRIDES, bias_of_product), product_shapes),
    "convolution": Primitive("conv", (direction_with_bias, *_OPERANDS, _OPERAND_STRIDES, algorithm("convolution_"))),
    "deconvolution": Primitive("deconv", (direction_with_bias, *_OPERANDS, algorithm("deconvolution_"))),
    "inner_product": Primitive("ip", (direction_with_bias, *_OPERANDS)),
    "eltwise": Primitive("eltwise", (direction, _SAME, _TAG, eltwise_algorithm)),
    "binary": Primitive("binary", (*_SOURCES, of_sources("--stag", free), _DTAG, binary_strides, algorithm("binary_"))),
    "softmax": Primitive("softmax", (direction, _SDT_DDT, _STAG, _DTAG, algorithm(""), auxiliary("axis"))),
    "logsoftmax": Primitive("softmax", (direction, _SDT_DDT, _STAG, constant("--alg=logsoftmax"), auxiliary("axis"))),
    "reduction": Primitive("reduction", (_SDT_DDT, _STAG, _DTAG, algorithm("reduction_"), numbers("p", "eps"))),
    "reorder": Primitive("reorder", (_SDT_DDT, exact_tags, strides("src", "dst"))),
    "pooling": Primitive("pool", (direction, dtypes(_SRC, _DST), _TAG, algorithm(""))),
    "batch_normalization": Primitive("bnorm", (direction, _SAME, _TAG, auxiliary("flags"))),
    "layer_normalization": Primitive("lnorm", _NORM),
    "group_normalization": Primitive("gnorm", _NORM),
    "concat": Primitive("concat", (_SDT_DDT, of_sources("--stag", row_major), _DTAG, auxiliary("axis"))),
    "sum": Primitive("sum", (*_SOURCES, of_sources("--stag", row_major), _DTAG)),
    "prelu": Primitive("prelu", (direction, dtypes(_SRC, _WEI, option="--sdt"), prelu_tags)),
    "resampling": Primitive("resampling", (direction, _SDT_DDT, _TAG, algorithm("resampling_"))),
    "shuffle": Primitive("shuffle", (direction, _SAME, _TAG, auxiliary("axis"), auxiliary("group"))),
    "lrn": Primitive("lrn", (direction, _SAME, _TAG, algorithm("lrn_"))),
}
