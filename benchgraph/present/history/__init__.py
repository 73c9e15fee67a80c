"""Runs and lasting changes as text.

chart.py   times over runs
report.py  what `benchgraph history` and `benchgraph regressions` print
"""
