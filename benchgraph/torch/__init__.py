"""The PyTorch bridge: `torch.compile(model, backend="benchgraph")`.

backend.py         the function that torch.compile calls
options.py         the user's options
decompositions.py  decomposes ops that the table lacks
views.py           ops that copy nothing
draft.py           translates an FX graph into a graph of the library
rows.py            the table: ATen op -> ops of the library
product_rows.py    rows for products and attention
nn_rows.py         rows for convolutions, pooling and normalisations
steps.py           compiled partitions and PyTorch's ops, run in order on PyTorch's memory
exported.py        a program of torch.export as a model, with the data of its weights
export_draft.py    its draft: views as ops, weights as data
functions.py       ops without a row, as functions of numpy or PyTorch
program.py         a graph compiled into such steps, and checks of its inputs
profile.py         where the time of compiled models goes, layer by layer
constants.py       constant weights, and detection of their changes
models.py          three models
table.py           measures the bridge with them
__main__.py        prints that table: python -m benchgraph.framework.torch

PyTorch finds the backend by the package's entry point; importing this module registers it if the package is not installed.
"""

from __future__ import annotations

try:
    import torch._dynamo
except ImportError as missing:
    raise ImportError("the bridge needs PyTorch 2.13 or newer: pip install torch") from missing

from benchgraph.torch.backend import backend, recorded
from benchgraph.torch.constants import weights_changed
from benchgraph.torch.profile import profiled
from benchgraph.torch.program import Summary

__all__ = ["Summary", "backend", "profiled", "recorded", "weights_changed"]

if "benchgraph" not in torch._dynamo.list_backends(exclude_tags=()):
    torch._dynamo.register_backend(compiler_fn=backend, name="benchgraph")
