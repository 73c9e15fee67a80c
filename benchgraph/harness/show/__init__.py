"""`benchgraph show`: the partitioned graph of one case, as text, DOT or SVG.

picture   ops and tensors with their labels, and which partition each op is in
fold      repeated blocks drawn once
text      for terminals
dot       for Graphviz
layout    where ops and tensors stand: layers from top to bottom
svg       for browsers; needs nothing installed
"""
