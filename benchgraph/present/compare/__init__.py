"""A comparison of two sides for people.

table.py     for terminals
markdown.py  for pull requests
csv.py       for spreadsheets
"""
