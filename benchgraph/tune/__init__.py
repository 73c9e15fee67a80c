"""Finds the fastest schedule parameters by measurement.

search.py        measures all legal choices in groups, and the best of them once more
result_table.py  the results, a line per case
"""
