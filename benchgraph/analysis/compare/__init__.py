"""Compares two sets of saved results.

sides.py        one or several runs of the same cases as a side
kinds.py        the kinds of machines that times come from
statistics.py   faster, slower or the same: correlated samples with outliers, on a machine that drifts
differences.py  times by statistics.py; statuses, accuracy and compile times
"""
