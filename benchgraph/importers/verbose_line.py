"""A line of oneDNN's verbose log, or of ours: its fields, by the versions of oneDNN.

onednn_verbose,v1,primitive,exec,cpu,matmul,brg_matmul:avx512_core,undef,src:f32::blocked:ab::f0 ...,,,13x31:31x65,0.03    3.5 and newer
onednn_verbose,exec,cpu,matmul,brg:avx512_core,undef,src_f32::blocked:ab::f0 ...,,,13x31:31x65,0.03                        older
dnnl_verbose,create:cache_miss,cpu,matmul,...                                                                              1.x and 2.0
onednn_verbose,v1,1795813389121.98,primitive,exec,...                                                                with time stamps
onednn_verbose,v1,graph,exec,cpu,100002,matmul_post_ops,MatMul;ReLU,,in0_f32:0:strided:...,fpm:strict,...,dnnl_backend,0.7      graphs
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TypeAlias

MARK = re.compile(r"(?:onednn|dnnl|mkldnn|benchgraph)(?:_graph)?_verbose,")
_HEAD = re.compile(
    r"(?P<mark>\w+_verbose),(?:v\d+,)?+(?:\d{6,}\.\d+,)?+(?:(?P<component>primitive|graph|ukernel|common|profile|api|rt),)?+"
    r"(?P<operation>[^,]+),(?P<rest>.*)"
)
EXECUTED, CREATED = "exec", "create"
# What a line says that stands for a primitive or a partition being made; the other operations of `create` are remarks
_KERNEL = re.compile(r"[^,]+,_\w+\(")  # in the component graph: a kernel that a partition runs, whose own line has the time as well
_MAKES = re.compile(r"(?:create|compile)(?::(?:cache_hit|cache_miss|disk_hit|from_cache_blob|persistent_cache_hit))?")
FIELDS = ("engine", "primitive", "implementation", "prop_kind", "memory_descriptors", "attributes", "auxiliary", "problem")


class NotALine(ValueError):
    """It bears the mark of a verbose log, but its fields are not those of one. The text says why."""


@dataclass(frozen=True)
class PrimitiveFields:
    """What a line says of a primitive, from the engine on, without its time. component: primitive or ukernel."""

    component: str
    engine: str
    primitive: str
    implementation: str
    prop_kind: str
    memory_descriptors: str
    attributes: str
    auxiliary: str
    problem: str

    @property
    def text(self) -> str:
        return ",".join(getattr(self, name) for name in FIELDS)

    @property
    def shape(self) -> str:
        return self.problem


@dataclass(frozen=True)
class GraphFields:
    """What a line says of a partition. tensors: the logical tensors of its border, as logged."""

    engine: str
    partition_id: str
    kind: str
    op_names: str
    formats: str
    tensors: str
    fpmath: str
    implementation: str
    backend: str

    @property
    def text(self) -> str:
        named = ("engine", "partition_id", "kind", "op_names", "formats", "tensors", "fpmath", "implementation", "backend")
        return ",".join(getattr(self, name) for name in named)

    @property
    def primitive(self) -> str:
        return "partition"

    @property
    def shape(self) -> str:
        return f"{self.partition_id} {self.kind}: {self.op_names}"


Fields: TypeAlias = PrimitiveFields | GraphFields


@dataclass(frozen=True)
class Head:
    """A line without its time. operation: EXECUTED, CREATED, or anything else for lines that are no event."""

    operation: str
    component: str
    rest: str


def head_of(text: str) -> Head:
    """Which kind of line this is. Raises NotALine."""
    found = _HEAD.fullmatch(text)
    if found is None:
        raise NotALine("the line ends before it says what was done")
    component = found["component"] or ("graph" if "_graph_" in found["mark"] else "primitive")
    operation = found["operation"]
    if component == "graph" and _KERNEL.match(found["rest"]):
        operation = "kernel"
    if _MAKES.fullmatch(operation):
        operation = CREATED
    return Head(operation, component, found["rest"])


def fields_of(component: str, rest: str) -> Fields:
    """The fields behind the operation, without the time. Raises NotALine."""
    fields = rest.split(",")
    if component == "graph":
        return _graph_fields(fields)
    if len(fields) != len(FIELDS):
        raise NotALine(f"it has {len(fields) + 1} fields behind its operation instead of {len(FIELDS) + 1}")
    return PrimitiveFields(component, *(field.strip() for field in fields))


def _graph_fields(fields: list[str]) -> GraphFields:
    """The template, and from oneDNN 3.9 on a field on the scratchpad in front of the implementation."""
    if not 9 <= len(fields) <= 10 or not fields[6].startswith("fpm:"):
        raise NotALine(f"it has {len(fields) + 1} fields behind its operation, and not those of a partition")
    engine, partition_id, kind, op_names, formats, tensors, fpmath, *_, implementation, backend = fields
    return GraphFields(engine, partition_id, kind, op_names, formats, tensors, fpmath.removeprefix("fpm:"), implementation, backend)
