"""A comparison of two sides.

table.py     for terminals
markdown.py  for pull requests
csv.py       for spreadsheets
"""
