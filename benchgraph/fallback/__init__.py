"""What a Wildcard computes, and numpy that computes it: ops of models that the library has no op for.

function.py    a function of another program (an ONNX node) as a value, and its text, which the attribute `computes` of a Wildcard holds
row.py         a row of the table of numpy functions: what it computes, its cost, which operand holds indices
pointwise.py   rows: element by element
moves.py       rows: elements taken, moved, repeated
sums.py        rows: reductions, products, sorting
recurrent.py   rows: LSTM, GRU, RNN
special.py     functions of scipy that several rows name
compute.py     a function computed: by its row, else by onnx's reference or PyTorch; results in the dtypes of their tensors
by_onnx.py     onnx's reference, which also judges the numpy functions where it is installed
by_torch.py    PyTorch, for functions of exported programs
"""

from __future__ import annotations

from benchgraph.fallback.compute import ROWS, execute, flops, index_limit, is_judged, reference, row_of, runner, threshold
from benchgraph.fallback.function import Function, Literal, parse

__all__ = [
    "ROWS", "Function", "Literal", "execute", "flops", "index_limit", "is_judged", "parse", "reference", "row_of", "runner", "threshold",
]  # fmt: skip
