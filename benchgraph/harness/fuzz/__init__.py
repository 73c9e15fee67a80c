"""benchgraph fuzz: random legal graphs from the op table, run in mode C; what fails is shrunk and kept as a case.

draw       one op: a sample of its row, made to fit the tensor it is put behind
grow       a graph, op by op, from draws
fair       which ops of a graph the reference can be held against, by running the rounding errors that the tolerance allows for
generate   graph i of seed S: grown, until what is left is fair
shrink     the smallest graph that still fails in the same way; moves: the steps it tries
command    the words behind `benchgraph fuzz`
"""
