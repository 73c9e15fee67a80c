"""Runs and change points as text.

chart.py   times over runs
report.py  the output of `benchgraph history` and `benchgraph regressions`
"""
