"""Checks that a program gets the inputs that it was compiled for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from benchgraph.core.errors import InvalidArguments, InvalidDataType, InvalidShape


@dataclass(frozen=True)
class Input:
    """A tensor input of a graph. name: in the model; reader: the op that reads it first."""

    name: str
    reader: str
    dtype: torch.dtype
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    is_constant: bool

    @property
    def where(self) -> str:
        return f"{self.reader}: tensor '{self.name}'"

    def check(self, given: Any) -> None:
        """Raise if the tensor does not match; the error names it and the op that reads it."""
        if not isinstance(given, torch.Tensor):
            raise InvalidArguments(f"it is a {type(given).__name__}", where=self.where, fix="give a torch.Tensor")
        if given.dtype is not self.dtype:
            what = f"it is {given.dtype}, the graph was compiled for {self.dtype}"
            raise InvalidDataType(what, where=self.where, fix="call the compiled model, which compiles anew")
        if given.layout is not torch.strided or given.device.type != "cpu":
            what = f"it lies on {given.device} as {given.layout}"
            raise InvalidArguments(what, where=self.where, fix="give a dense tensor on the CPU")
        if given.shape != self.shape or given.stride() != self.strides:
            what = f"shape {tuple(given.shape)} with strides {given.stride()}, compiled for {self.shape} with {self.strides}"
            raise InvalidShape(what, where=self.where, fix="call the compiled model, which compiles anew")
        if not given.data_ptr() and 0 not in self.shape:
            raise InvalidArguments("its memory has been freed", where=self.where, fix="give a tensor that holds its data")
