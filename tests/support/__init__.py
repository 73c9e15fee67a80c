"""What tests of several folders share: builders of inputs and results, and checks.

table.py                many small cases in one test
guard_pages.py          arrays beside memory that must not be touched
call_trace.py           the Python functions that run during a call
call_counts.py          how many calls a piece of work makes, as a measure of its cost
processes.py            programs that receive Ctrl-C; whether a process has ended
postgresql.py           a PostgreSQL server, as a pytest plugin
architecture.py         sections and tables of docs/architecture.md, docs/compiler.md

targets.py              targets to compile for; the ISA levels of this machine
partitions.py           graphs from functions that build them, and their only partition
graph_ir.py             the Graph IR of a small graph before, inside and after the passes
score_blocks.py         attention whose scores are computed some columns at a time
gemms.py                products as their schedules are chosen for
tensor_ir.py            the Tensor IR of a small graph, as lowered and after passes
reference_check.py      machine code of a partition compared with the reference

corpus.py               graph files of others, outside of the repository
lowering_graphs.py      small graphs that reach every part of the lowering
sample_partition.py     one partition with constants to compute, a literal table and post-ops
bf16_products.py        checks of compiled products in bf16

tir_programs.py         Tensor IR functions written by hand, and how to run one
post_op_programs.py     Tensor IR functions of a product with post-ops that its microkernel can apply
tir_maps.py             elementwise Tensor IR functions, compiled and run on arrays
microkernels.py         microkernels, their definition in numpy, and checks of what they compute
packings.py             packing of weights, its definition in numpy, and a check
covering.py             a selection of the combinations of a test's parameters
machine_code.py         the machine code of LLVM IR, as text
dot_products.py         one step of a dot product on vectors

fake_library.py         a library under test with a clock of its own, for the harness
fake_fleet.py           a fleet without a network, whose workers die and come back as told
dask_cluster.py         a Dask cluster of processes, and benchgraph as its client
misbehaving_library.py  a library under test that crashes, hangs or exhausts memory
result_sets.py          the results of a run with a timed, an untested and a wrong case
written_reports.py      what written reports contain: tables of Markdown, cases of a saved run
"""
