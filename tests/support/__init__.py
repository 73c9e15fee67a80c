"""What tests of several folders share: builders of inputs and results, and checks.

table.py                many small cases in one test
guard_pages.py          arrays beside memory that must not be touched
call_trace.py           the Python functions that run during a call
processes.py            programs that receive Ctrl-C; whether a process has ended
postgresql.py           a PostgreSQL server, as a pytest plugin

targets.py              targets to compile for; the ISA levels of this machine
partitions.py           graphs from functions that build them, and their only partition
graph_ir.py             the Graph IR of a small graph before, inside and after the passes
tensor_ir.py            the Tensor IR of a small graph, as lowered and after passes
reference_check.py      machine code of a partition compared with the reference

corpus.py               graph files of others, outside of the repository
lowering_graphs.py      small graphs that reach every part of the lowering
tir_programs.py         Tensor IR functions written by hand, and how to run one

fake_library.py         a library under test with a clock of its own, for the harness
misbehaving_library.py  a library under test that crashes, hangs or exhausts memory
"""
