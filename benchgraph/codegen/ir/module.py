"""Modules, functions and basic blocks, which hold instructions and print them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from types import MappingProxyType

from benchgraph.codegen.ir.values import ANYWHERE, PTR, Argument, Constant, FunctionType, Memory, Metadata, Type, Value, quoted


class Module:
    """Functions and variables by name, and metadata. known: functions of other modules, which are declared rather than defined again."""

    def __init__(self, name: str = "", known: Mapping[str, Function] = MappingProxyType({})) -> None:
        self.name, self._known = name, known
        self.functions, self.variables = dict[str, Function](), dict[str, GlobalVariable]()
        self._foreign = dict[str, Function]()
        self._metadata = dict[str, Metadata]()

    def add_metadata(self, parts: Sequence[str | Metadata]) -> Metadata:
        """The node of these strings and nodes; equal parts share one."""
        text = f"!{{{', '.join(p.ref if isinstance(p, Metadata) else f'!{quoted(p)}' for p in parts)}}}"
        return self._metadata.setdefault(text, Metadata(f"!{len(self._metadata)}"))

    def declare(self, function: Function) -> None:
        """Declare a function in this module if it is of another one."""
        if function.module is not self:
            self._foreign[function.name] = function

    def find(self, name: str) -> Function | None:
        """The function of this name, of this module or another one."""
        return self.functions.get(name) or self._known.get(name)

    def get_unique_name(self, name: str) -> str:
        """The name, with a number appended if a function has it already."""
        numbered = (f"{name}.{i}" for i in count(1))
        return name if name not in self.functions else next(n for n in numbered if n not in self.functions)

    @property
    def instructions(self) -> int:
        """The number of instructions of its functions."""
        return sum(len(block.lines) for function in self.functions.values() for block in function.blocks)

    def __str__(self) -> str:
        definitions = [
            *(v.text() for v in self.variables.values()),
            *(f.text() for f in self.functions.values()),
            *(f.declaration() for f in self._foreign.values()),
        ]
        nodes = (f"{node.ref} = {text}" for text, node in self._metadata.items())
        return "\n".join([f"; ModuleID = {quoted(self.name)}", *definitions, *nodes, ""])


class GlobalVariable(Value):
    """The address of a global variable."""

    __slots__ = ("_definition",)

    def __init__(self, module: Module, initializer: Constant, name: str) -> None:
        super().__init__(PTR, f"@{quoted(name)}")
        self._definition = f"{self.ref} = global {initializer}"
        module.variables[name] = self

    def text(self) -> str:
        return self._definition


class Function(Value):
    """A declaration until it has blocks."""

    __slots__ = ("_names", "allocas", "args", "attributes", "blocks", "function_type", "linkage", "module", "name", "numbers")

    def __init__(self, module: Module, type: FunctionType, name: str) -> None:
        if name in module.functions:
            raise ValueError(f"module {module.name} has a {name} already")
        super().__init__(PTR, f"@{quoted(name)}")
        self.module, self.function_type, self.name = module, type, name
        self.args = [Argument(t, f"%arg{i}") for i, t in enumerate(type.args)]
        self.linkage, self.attributes = "", set[str]()
        self.blocks, self.allocas = list[Block](), list[str]()
        self.numbers, self._names = count(), dict[str, int]()
        module.functions[name] = self

    def append_basic_block(self, name: str = "block") -> Block:
        block = Block(self, self.unique(name))
        self.blocks.append(block)
        return block

    def unique(self, name: str) -> str:
        """The name, with a number appended if the function has it already. Unnamed values are a dot and a number."""
        uses = self._names.get(name, 0)
        self._names[name] = uses + 1
        return f"{name}.{uses}" if uses else name

    def declaration(self) -> str:
        types = ", ".join(a.type.text for a in self.args)
        return f"declare {self.function_type.return_type.text} {self.ref}({types}){self._attributes}"

    @property
    def _attributes(self) -> str:
        return "".join(f" {a}" for a in sorted(self.attributes))

    def text(self) -> str:
        if not self.blocks:
            return self.declaration()
        result = self.function_type.return_type.text
        args = ", ".join(" ".join([a.type.text, *a.attributes, a.ref]) for a in self.args)
        head = " ".join(word for word in ("define", self.linkage, result) if word)
        entry, *others = self.blocks
        text = [
            f"{head} {self.ref}({args}){self._attributes} {{",
            *entry.text(self.allocas),
            *(line for b in others for line in b.text()),
            "}",
        ]
        return "\n".join(text)


class Phi(Value):
    __slots__ = ("incoming",)

    def __init__(self, type: Type, ref: str) -> None:
        super().__init__(type, ref)
        self.incoming = list[tuple[Value, Block]]()

    def add_incoming(self, value: Value, block: Block) -> None:
        self.incoming.append((value, block))

    def line(self) -> str:
        return f"{self.ref} = phi {self.type.text} {', '.join(f'[{value.ref}, {block.ref}]' for value, block in self.incoming)}"


class Block:
    """A basic block. known: values of instructions without side effects, by their text, here and in blocks that dominate it. read: values
    already loaded, by memory and text of the load; a write removes those that it may overlap."""

    def __init__(self, function: Function, name: str) -> None:
        self.function, self.name, self.ref = function, name, f"%{quoted(name)}"
        self.phis, self.lines = list[Phi](), list[str]()
        self.known, self.read = dict[str, Value](), dict[str, dict[str, Value]]()

    def reads(self, memory: Memory) -> dict[str, Value]:
        """The values read from this memory, by their text."""
        return self.read.setdefault(memory.name if memory.overlaps is not None else ANYWHERE.name, {})

    def text(self, allocas: Sequence[str] = ()) -> list[str]:
        return [f"{quoted(self.name)}:", *allocas, *(phi.line() for phi in self.phis), *self.lines]
