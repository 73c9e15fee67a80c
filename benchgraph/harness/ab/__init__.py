"""Runs of two versions of a library, for `benchgraph ab` and `benchgraph bisect`.

cases.py     cases to run, and what must be there for them
sides.py     versions by the words for them
contest.py   checks and launches of both versions
versions.py  commits, written or built
search.py    bisect: candidates against GOOD
"""
