"""Runs in a database, and change points.

tables.py      the current schema
migrations.py  upgrades older schemas, one step per version
database.py    a database by its URL: SQLite or PostgreSQL
store.py       appends and reads runs
recording.py   --history during a run
run_order.py   the order of runs: by commit, then by time
series.py      time series: one per case, policy and machine
changes.py     change points in these series
"""
