"""Random legal graphs from the op table, and smaller ones that still fail.

draw.py      one op: a sample of its row, made to fit the tensor it is put behind
grow.py      a graph, op by op, from draws
fair.py      which ops of a graph the reference can be held against, by running the rounding errors that the tolerance allows for
generate.py  graph i of seed S: grown, until what is left is fair
shrink.py    the smallest graph that still fails in the same way
moves.py     the steps that shrinking tries
"""
