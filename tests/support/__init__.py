"""What tests of several folders share: builders of inputs and results, and checks.

table.py                many small cases in one test
guard_pages.py          arrays beside memory that must not be touched
call_trace.py           the Python functions that run during a call
processes.py            programs that receive Ctrl-C; whether a process has ended
postgresql.py           a PostgreSQL server, as a pytest plugin

corpus.py               graph files of others, outside of the repository
lowering_graphs.py      small graphs that reach every part of the lowering
tir_programs.py         Tensor IR functions written by hand, and how to run one

fake_library.py         a library under test with a clock of its own, for the harness
misbehaving_library.py  a library under test that crashes, hangs or exhausts memory
"""
