"""The partitioned graph of one case, as text, DOT or SVG.

picture.py  ops and tensors with their labels, and which partition each op is in
style.py    colours
fold.py     repeated blocks drawn once
text.py     for terminals
dot.py      for Graphviz
layout.py   where ops and tensors stand: layers from top to bottom
svg.py      for browsers; needs nothing installed
"""
