"""What convolutions and transposed ones share: arguments, and each direction as ops."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from benchgraph.options.problem import CannotExpress

from ._layout import PLAIN
from ._options import check_direction, configured, dtype_of

if TYPE_CHECKING:
    from benchgraph.core.attrs import Attrs
    from benchgraph.core.dtypes import DType
    from benchgraph.graph import Graph

    from ._draft import Arg, Draft

CHOSEN = "axb"  # channels last: the layout that convolutions are compiled for, and so the one for `any`
WAYS = ("FWD_B", "FWD_D", "FWD_I", "BWD_D", "BWD_W", "BWD_WB")
WITH_BIAS = ("FWD_B", "BWD_WB")


@dataclass(frozen=True)
class Args:
    """The arguments, with the dims that the ops give them, whatever their layout."""

    src: Arg
    wei: Arg
    dst: Arg
    bia: Arg | None


@dataclass(frozen=True)
class Step:
    """An op and its attributes."""

    kind: str
    attrs: Attrs


@dataclass(frozen=True)
class Steps:
    forward: Step
    backward_data: Step
    backward_weights: Step


def args_of(knobs: Any, own: list[tuple[int, ...] | None], weights: Callable[[DType], Arg]) -> Args:
    """own: strides of src, weights and dst that the case gives. weights(dtype): their argument."""
    from benchgraph.core.dtypes import DType

    from ._draft import Arg

    c = knobs.case.with_mb(knobs.mb)
    sdt, wdt, ddt = (dtype_of(name) for name in configured(knobs.dt, knobs.cfg).of(3))
    stag, dtag = (CHOSEN if tag in PLAIN else tag for tag in (knobs.stag, knobs.dtag))
    src = Arg("src", (c.mb, c.ic, *(dim.i for dim in c.dims)), sdt, stag, "--stag", given=own[0])
    dst = Arg("dst", (c.mb, c.oc, *(dim.o for dim in c.dims)), ddt, dtag, "--dtag", given=own[2])
    wide = wdt if wdt.is_float and wdt.bits > 8 else DType.f32
    has_bias = knobs.bia_dt != "undef" or knobs.dir in WITH_BIAS
    bia = Arg("bia", (c.oc,), wide if knobs.bia_dt == "undef" else dtype_of(knobs.bia_dt)) if has_bias else None
    return Args(src, weights(wdt), dst, bia)


def attrs_of(case: Any, **more: object) -> Attrs:
    """The attributes that all the ops have. case: a `ConvShape`."""
    from benchgraph.core.attrs import Attrs

    return Attrs(
        strides=tuple(dim.s for dim in case.dims),
        pads_begin=tuple(dim.p for dim in case.dims),
        pads_end=tuple(dim.pad_end for dim in case.dims),
        dilations=tuple(dim.d + 1 for dim in case.dims),
        groups=case.g,
        data_format="NCX",
    ).updated(**more)


def draft_of(knobs: Any) -> Draft:
    """An empty draft. Raises CannotExpress for a direction, an algorithm or post-ops that no op has."""
    from ._draft import Draft

    check_direction(knobs.dir, WAYS)
    if knobs.alg == "wino" or knobs.cfg.endswith("_wino"):
        where = "--alg=wino" if knobs.alg == "wino" else f"--cfg={knobs.cfg}"
        raise CannotExpress("no op asks for an algorithm", where=where, fix="use direct or auto")
    d = Draft(knobs.attr_scales, knobs.attr_zero_points, knobs.attr_fpmath)
    if knobs.dir.startswith("BWD"):
        d.no_post_ops(knobs.attr_post_ops, forward="FWD_B")
    return d


def graph_of(d: Draft, knobs: Any, args: Args, steps: Steps) -> Graph:
    """The direction that the case has."""
    if knobs.dir == "BWD_D":
        _backward_data(d, args, steps.backward_data)
    elif knobs.dir in ("BWD_W", "BWD_WB"):
        _backward_weights(d, args, steps.backward_weights)
    else:
        _forward(d, args, steps.forward, knobs)
    return d.graph()


def _forward(d: Draft, args: Args, step: Step, knobs: Any) -> None:
    ins = [d.read(args.src), d.read(args.wei, constant=args.wei.is_free)]
    if args.bia is not None:
        ins.append(d.read(args.bia, constant=args.wei.is_free))
    t = d.b.append(step.kind, d.alike(*ins, result=args.dst.dtype), step.attrs)[0]
    d.write(d.post_ops(t, knobs.attr_post_ops, args.dst), args.dst)


def _backward_data(d: Draft, args: Args, step: Step) -> None:
    ins = d.alike(d.read(args.dst), d.read(args.wei, constant=args.wei.is_free), result=args.src.dtype)
    d.write(d.b.append(step.kind, ins, step.attrs)[0], args.src)


def _backward_weights(d: Draft, args: Args, step: Step) -> None:
    """The gradient of the weights, and that of the bias if there is one."""
    diff_dst = d.read(args.dst)
    ins = d.alike(d.read(args.src), diff_dst, result=args.wei.dtype)
    d.write(d.b.append(step.kind, ins, step.attrs)[0], args.wei)
    if args.bia is not None:
        (diff_dst,) = d.alike(ins[1], result=args.bia.dtype)
        d.write(d.b.op("BiasAddBackward", diff_dst, data_format="NCX"), args.bia)
