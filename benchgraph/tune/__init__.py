"""Finds the fastest schedule parameters by measurement.

search.py        measures all legal choices in heats, and the best in a final
result_table.py  the results, a line per case
"""
