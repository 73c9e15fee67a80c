"""Random legal graphs from the op table, and smaller ones that still fail.

draw.py             one random op: a sample of its row, adapted to a given tensor
grow.py             a random graph, op by op
sensitivity.py      which ops of a graph can be compared with the reference: simulates the errors that the tolerance allows
generate.py         graph i of seed S
shrink.py           the smallest graph that still fails in the same way
simplifications.py  the simplifications that shrinking tries
"""
