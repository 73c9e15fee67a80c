"""The PyTorch bridge: `torch.compile(model, backend="benchgraph")`.

backend options              what torch.compile calls, and what the user may say
decompositions               large ops in terms of smaller ones
rows product_rows nn_rows    the table: ATen op -> rows of the library's op table
views                        ops that copy nothing
draft                        an FX graph as a graph of the library's
program steps inputs         compiled partitions and PyTorch's ops in order, on PyTorch's memory; what they must be given
constants                    weights, and how it is noticed that they changed
models table                 three models, and a table of what the bridge does for them (python -m benchgraph.framework.torch)

PyTorch finds the backend by the package's entry point; importing this module registers it where the package is not installed.
"""

from __future__ import annotations

try:
    import torch._dynamo
except ImportError as missing:
    raise ImportError("the bridge needs PyTorch 2.13 or newer: pip install torch") from missing

from benchgraph.framework.torch.backend import backend, recorded
from benchgraph.framework.torch.constants import weights_changed
from benchgraph.framework.torch.program import Summary

__all__ = ["Summary", "backend", "recorded", "weights_changed"]

if "benchgraph" not in torch._dynamo.list_backends(exclude_tags=()):
    torch._dynamo.register_backend(compiler_fn=backend, name="benchgraph")
