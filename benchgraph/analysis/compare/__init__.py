"""Compares two sets of saved results.

sides.py        one or several runs of the same cases on one machine as a side
statistics.py   faster, slower or the same: correlated samples with outliers, on a machine that drifts
differences.py  times by statistics.py; statuses, accuracy and compile times
"""
