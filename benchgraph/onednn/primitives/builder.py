"""A program's primitives, created in oneDNN's process: which layouts values have, and which reorders that takes.

    conv(%0 -> %1)         %1 any: nChw16c         conv %0 -> %1
    relu(%1 -> %2)   ->    %2 as %1          ->    relu %1 -> %2
    rows(%2 -> %3)         plain only              reorder %2 -> plain; rows

A primitive gets its inputs as they lie, layout any where it may choose, and any for what it writes, unless that is the user's. If oneDNN
refuses that, it is asked again with plain inputs, plain outputs, then nothing but plain ones. A value that a reorder converts has two
forms from then on, and later primitives take the one that fits.

What is computed from constants alone is computed by the first execution, and not again: that is how weights are packed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from benchgraph.onednn.primitives import capi
from benchgraph.onednn.primitives.handles import Objects
from benchgraph.onednn.primitives.messages import (
    ATTR,
    ENGINE,
    Alias,
    Attributes,
    Border,
    Call,
    Dims,
    Factors,
    Md,
    Operand,
    Primitive,
    Program,
    Sum,
    View,
)
from benchgraph.onednn.session import Refused

F32, S32 = 3, 4  # dnnl_data_type_t
_REORDER = Call("dnnl_reorder_primitive_desc_create", (Md(capi.SRC), ENGINE, Md(capi.DST), ENGINE, ATTR))


@dataclass(eq=False)
class Storage:
    """Memory of one form of a value. border: the user's, by value; 0 < nbytes: planned, from the first to the last execution that uses it.

    is_constant: computed once, and kept. is_shared: of several values, of which one is a reshaped other.
    """

    nbytes: int
    border: int | None = None
    is_constant: bool = False
    is_shared: bool = False
    begin: int = 0
    end: int = 0


@dataclass(frozen=True, eq=False)
class Form:
    """A value in memory. space: None if md has the value's dims; else the view (a split or added dim) whose dims it has."""

    md: int
    storage: Storage
    space: View | None = None


@dataclass
class Value:
    """plain: as the program describes it, or, of a temporary, its first operand. last: the last step that reads it."""

    plain: View
    forms: list[Form] = field(default_factory=list)
    is_constant: bool = False
    border: Border | None = None
    last: int = -1


@dataclass(frozen=True)
class Execution:
    """arguments: (DNNL_ARG, md, storage)."""

    primitive: int
    arguments: tuple[tuple[int, int, Storage], ...]


@dataclass
class Order:
    """Executions of the first time only, and of every time."""

    once: list[Execution] = field(default_factory=list)
    always: list[Execution] = field(default_factory=list)


def identity(rank: int) -> Dims:
    return tuple(range(rank))


def inverse(order: Dims) -> Dims:
    return tuple(order.index(i) for i in range(len(order)))


class Builder:
    """Builds one program."""

    def __init__(self, objects: Objects, program: Program) -> None:
        self.objects, self.program = objects, program
        self.order, self.values = Order(), dict[int, Value]()
        self.factors = list[tuple[Storage, Factors, int]]()
        self.storages = list[Storage]()
        self.implementations: list[list[tuple[str, str]]] = [[] for _ in program.steps]
        self.place = 0  # of the present step
        self.primitives = self.reorders = 0
        for id, plain in program.between:
            self.values[id] = Value(plain)
        for border in program.borders:
            plain = border.view
            value = self.values[border.value] = Value(plain, is_constant=border.is_constant, border=border)
            if not border.is_output:
                md = objects.plain(plain)
                value.forms.append(Form(md, Storage(objects.nbytes(md), border=border.value, is_constant=border.is_constant)))
        for n, step in enumerate(program.steps):
            for operand in step.inputs if isinstance(step, Primitive) else (step.src,):
                self._value(operand).last = n

    def build(self) -> None:
        """Raises Refused."""
        for n, step in enumerate(self.program.steps):
            self.place = n
            if isinstance(step, Alias):
                self._alias(step)
            else:
                self._primitive(step)

    # ---- steps -------------------------------------------------------------------------------------------------------

    def _alias(self, step: Alias) -> None:
        """No work, unless the user's buffer must be written: then a reorder."""
        source, target = self._value(step.src), self._value(step.dst)
        target.is_constant = source.is_constant and target.border is None
        form = self._plain_form(source)
        if target.border is None:
            form.storage.is_shared = True
            target.forms.append(Form(self.objects.plain(target.plain), form.storage))
            return
        md = self.objects.plain(View(step.src.view.dims, step.src.view.strides, step.src.view.dtype, None))
        storage = Storage(self.objects.nbytes(md), border=step.dst.value)
        target.forms.append(Form(self.objects.plain(target.plain), storage))
        self._reorder(form.md, form.storage, md, storage, once=False)

    def _primitive(self, p: Primitive) -> None:
        views = {o.arg: o.view for o in (*p.inputs, *p.outputs)}
        descriptor, given = self._described(p, views)
        self.primitives += 1
        is_constant = bool(p.inputs) and all(self._value(o).is_constant for o in p.inputs)
        is_constant = is_constant and all(self._value(o).border is None for o in p.outputs)
        arguments = list[tuple[int, int, Storage]]()
        chosen = {o.arg: self._chosen(descriptor, o, given) for o in (*p.inputs, *p.outputs) if o.arg != capi.SUMMED}
        for o in p.inputs:
            if o.arg != capi.SUMMED:
                arguments.append((o.arg, chosen[o.arg], self._stored(o, chosen[o.arg])))
        for o in p.outputs:
            storage = self._summed(p, chosen[o.arg]) if o.arg == capi.DST else None
            arguments.append((o.arg, chosen[o.arg], self._written(o, chosen[o.arg], is_constant, storage)))
        if p.workspace and (md := self.objects.descriptor_md(descriptor, capi.QUERY_WORKSPACE)):
            arguments.append((capi.WORKSPACE, md, self._workspace(p, md, is_constant)))
        for base, factors, dtype in (
            *((capi.ATTR_SCALES, f, F32) for f in p.attrs.scales),
            *((capi.ATTR_ZERO_POINTS, f, S32) for f in p.attrs.zero_points),
        ):
            if factors.values:
                arguments.append(self._constant(base, factors, dtype))
        self._append(descriptor, p.name, arguments, once=is_constant)
        for o in p.outputs:
            self._converted(o, chosen[o.arg], is_constant)

    def _described(self, p: Primitive, views: Mapping[int, View]) -> tuple[int, dict[int, int]]:
        """The first primitive descriptor that oneDNN accepts, and the memory descriptors that it was asked for."""
        natural = {o.arg: self.objects.any_layout(o.view) if o.is_free else self._as_it_lies(o) for o in p.inputs}
        plain = {o.arg: self.objects.plain(o.view) for o in (*p.inputs, *p.outputs)}
        chosen = {o.arg: self.objects.any_layout(o.view) if self._may_choose(p, o) else plain[o.arg] for o in p.outputs}
        outputs, inputs = {o.arg: plain[o.arg] for o in p.outputs}, {o.arg: plain[o.arg] for o in p.inputs}
        plainer = {o.arg: natural[o.arg] if o.is_free else plain[o.arg] for o in p.inputs}
        refused: Refused | None = None
        for given in (
            {**natural, **chosen},
            {**plainer, **chosen},
            {**natural, **outputs},
            {**plainer, **outputs},
            {**inputs, **outputs},
        ):
            try:
                return self.objects.descriptor(p.create, given, p.attrs, p.hint, views), given
            except Refused as bad:
                refused = refused or bad
        assert refused is not None
        raise refused

    def _may_choose(self, p: Primitive, o: Operand) -> bool:
        return o.is_free and o.view.order is not None and (p.chooses_borders or self._value(o).border is None)

    def _chosen(self, descriptor: int, o: Operand, given: Mapping[int, int]) -> int:
        """The memory descriptor with which an operand is passed: that of the primitive, if it chose."""
        md = self.objects.descriptor_md(descriptor, capi.QUERY_EXEC_ARG, o.arg)
        return md if md and self.objects.nbytes(md) else given[o.arg]  # one without dims: an argument that this version does not read

    # ---- values ------------------------------------------------------------------------------------------------------

    def _value(self, o: Operand) -> Value:
        """The value of an operand, which describes it if it makes a temporary."""
        if o.value not in self.values:
            order = o.view.order if o.view.order is not None else identity(len(o.view.dims))
            back = inverse(order)
            plain = View(tuple(o.view.dims[i] for i in back), tuple(o.view.strides[i] for i in back), o.view.dtype, identity(len(back)))
            self.values[o.value] = Value(plain)
        return self.values[o.value]

    def _forms(self, o: Operand) -> Iterator[tuple[int, Storage]]:
        """The value's forms as the operand sees them, the oldest first."""
        for form in self._value(o).forms:
            if form.space is None and o.view.order is not None:
                yield self.objects.permuted(form.md, o.view.order), form.storage
            elif form.space == o.view:
                yield form.md, form.storage
        if o.view.order is None:
            yield self.objects.plain(o.view), self._plain_form(self._value(o)).storage

    def _as_it_lies(self, o: Operand) -> int:
        return next(self._forms(o))[0]

    def _plain_form(self, value: Value) -> Form:
        """The value in its plain layout, by a reorder if it has no such form."""
        plain = self.objects.plain(value.plain)
        for form in value.forms:
            if form.space is None and self.objects.are_equal(form.md, plain):
                return form
        first = next(form for form in value.forms if form.space is None)
        storage = self._planned(plain, is_constant=value.is_constant)
        self._reorder(first.md, first.storage, plain, storage, once=value.is_constant)
        value.forms.append(Form(plain, storage))
        return value.forms[-1]

    def _stored(self, o: Operand, md: int) -> Storage:
        """Where an input lies in this layout, by a reorder if it has no such form."""
        forms = list(self._forms(o))
        for known, storage in forms:
            if self.objects.are_equal(known, md):
                return storage
        value = self._value(o)
        storage = self._planned(md, is_constant=value.is_constant)
        self._reorder(*forms[0], md, storage, once=value.is_constant)
        if o.view.order is None:
            value.forms.append(Form(md, storage, o.view))
        else:
            value.forms.append(Form(self.objects.permuted(md, inverse(o.view.order)), storage))
        return storage

    def _written(self, o: Operand, md: int, is_constant: bool, storage: Storage | None) -> Storage:
        """Where a primitive writes an output. storage: given for it, else new."""
        value = self._value(o)
        value.is_constant = is_constant
        if storage is None:
            is_users = value.border is not None and self.objects.are_equal(md, self.objects.plain(o.view))
            storage = Storage(0, border=o.value) if is_users else self._planned(md, is_constant=is_constant)
        own = self.objects.permuted(md, inverse(o.view.order)) if o.view.order is not None else self.objects.plain(value.plain)
        value.forms.append(Form(own, storage))
        return storage

    def _converted(self, o: Operand, md: int, is_constant: bool) -> None:
        """Behind a primitive that did not accept an output's layout or dtype, such as statistics in bf16: a reorder to that."""
        value, plain = self._value(o), self.objects.plain(o.view)
        if (o.is_free and value.border is None and o.view.order is not None) or self.objects.are_equal(md, plain):
            return
        written = value.forms.pop().storage
        storage = Storage(0, border=o.value) if value.border is not None else self._planned(plain, is_constant=is_constant)
        self._reorder(md, written, plain, storage, once=is_constant)
        value.forms.append(Form(self.objects.plain(value.plain), storage))

    def _summed(self, p: Primitive, md: int) -> Storage | None:
        """Memory for dst that holds the operand of a sum post-op: the operand's own if nobody reads it later, else a copy."""
        if not any(isinstance(op, Sum) for op in p.attrs.post_ops):
            return None
        operand = next(o for o in p.inputs if o.arg == capi.SUMMED)
        (dst,) = (o for o in p.outputs if o.arg == capi.DST)
        value, target = self._value(operand), self._value(dst)
        for known, storage in self._forms(operand):
            is_ours = (
                storage.border is None
                and not storage.is_constant
                and not storage.is_shared
                and value.last == self.place
                and len(value.forms) == 1
            )
            if is_ours and self.objects.are_equal(known, md):
                return storage
        is_users = target.border is not None and self.objects.are_equal(md, self.objects.plain(dst.view))
        copy = Storage(0, border=dst.value) if is_users else self._planned(md, is_constant=False)
        known, storage = next(self._forms(operand))
        self._reorder(known, storage, self._typed(md, operand, dst), copy, once=False)
        return copy

    def _typed(self, md: int, operand: Operand, dst: Operand) -> int:
        """dst's memory descriptor with the operand's dtype, of the same size; dst is plain where they differ."""
        return md if operand.view.dtype == dst.view.dtype else self.objects.plain(replace(dst.view, dtype=operand.view.dtype))

    def _workspace(self, p: Primitive, md: int, is_constant: bool) -> Storage:
        if p.makes_workspace:
            value = self.values[p.workspace] = Value(View((), (), 0, ()))
            value.forms.append(Form(md, self._planned(md, is_constant=is_constant)))
        return self.values[p.workspace].forms[0].storage

    def _planned(self, md: int, *, is_constant: bool) -> Storage:
        now = len(self.order.always)
        storage = Storage(max(self.objects.nbytes(md), 1), is_constant=is_constant, begin=now, end=now)
        self.storages.append(storage)
        return storage

    def _constant(self, base: int, factors: Factors, dtype: int) -> tuple[int, int, Storage]:
        md = self.objects.plain(View((len(factors.values),), (1,), dtype, None))
        storage = Storage(self.objects.nbytes(md), is_constant=True)
        self.storages.append(storage)
        self.factors.append((storage, factors, dtype))
        return base | factors.arg, md, storage

    # ---- executions --------------------------------------------------------------------------------------------------

    def _reorder(self, src: int, source: Storage, dst: int, target: Storage, *, once: bool) -> None:
        descriptor = self.objects.descriptor(_REORDER, {capi.SRC: src, capi.DST: dst}, Attributes(), None, {})
        if not once:
            self.reorders += 1
        self._append(descriptor, "reorder", [(capi.SRC, src, source), (capi.DST, dst, target)], once=once)

    def _append(self, descriptor: int, name: str, arguments: list[tuple[int, int, Storage]], *, once: bool) -> None:
        primitive = self.objects.primitive(descriptor, name)
        self.implementations[self.place].append((name, self.objects.implementation(descriptor)))
        now = len(self.order.always)
        for _, _, storage in arguments:
            storage.end = now
        (self.order.once if once else self.order.always).append(Execution(primitive, tuple(arguments)))
