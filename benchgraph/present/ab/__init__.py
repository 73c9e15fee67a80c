"""A comparison of two versions.

table.py     for terminals
markdown.py  for pull requests
json.py      for programs: docs/ab.md has the fields
page.py      for browsers, by page.html
"""
