"""The schedule's choice against every legal one.

search.py  the measurement
text.py    its result, a line per case
"""
