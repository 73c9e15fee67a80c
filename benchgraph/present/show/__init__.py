"""The partitioned graph of one case, as text, DOT or SVG.

picture.py          ops and tensors with their labels, and each op's partition
repeated_blocks.py  draws repeated blocks once
text.py             for terminals
dot.py              for Graphviz
graph_drawing.py    layered drawing of ops and tensors, from top to bottom
svg.py              for browsers, without Graphviz
"""
