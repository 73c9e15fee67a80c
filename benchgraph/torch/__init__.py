"""The PyTorch bridge: `torch.compile(model, backend="benchgraph")`.

backend.py         what torch.compile calls
options.py         what the user may set
decompositions.py  large ops in terms of smaller ones
views.py           ops that copy nothing
draft.py           an FX graph as a graph of the library's
rows.py            the table: ATen op -> rows of the library's op table
product_rows.py    the same for products and convolutions
nn_rows.py         the same for layers of networks
inputs.py          what the compiled program must be given
steps.py           compiled partitions and PyTorch's ops, one after the other, on PyTorch's memory
program.py         a graph as such steps
constants.py       weights, and how it is noticed that they changed
models.py          three models
table.py           what the bridge does for them, measured
__main__.py        that table: python -m benchgraph.framework.torch

PyTorch finds the backend by the package's entry point; importing this module registers it where the package is not installed.
"""

from __future__ import annotations

try:
    import torch._dynamo
except ImportError as missing:
    raise ImportError("the bridge needs PyTorch 2.13 or newer: pip install torch") from missing

from benchgraph.torch.backend import backend, recorded
from benchgraph.torch.constants import weights_changed
from benchgraph.torch.program import Summary

__all__ = ["Summary", "backend", "recorded", "weights_changed"]

if "benchgraph" not in torch._dynamo.list_backends(exclude_tags=()):
    torch._dynamo.register_backend(compiler_fn=backend, name="benchgraph")
