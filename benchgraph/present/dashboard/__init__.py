"""A history as one page: a trend for each case and machine, with its change points; it works offline, on a phone, by keyboard and without
scripts.

trend.py      a case over its runs: lines, levels and marks, and their SVG
view.py       the content of the page as texts and numbers
dashboard.py  renders it with the template in this folder, in the style of present/page
"""
