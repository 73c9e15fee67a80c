"""Runs in a database, and changes that last.

tables.py      the schema of today
migrations.py  from an older schema to this one, a step per version
database.py    a database by its URL: SQLite or PostgreSQL
store.py       runs appended whole, and read back
recording.py   --history while a run lasts
order.py       the order of runs: commits, then time
series.py      each case under each policy on each machine, over the runs
changes.py     change points in these series
"""
