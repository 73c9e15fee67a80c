"""From a command line to results: a case's way through the rooms, alone or in worker processes.

case.py        a case's journey in order, and one case after another
cut.py         a graph cut into partitions and compiled
contenders.py  what a case compares: libraries under policies
bound.py       a compiled partition bound to memory, and executed
verdict.py     outputs compared with the reference: right, wrong, or proving nothing
differ.py      where libraries differ, and which is right
adoption.py    the same through the framework layer
latency.py     what the framework layer costs at batch 1 (python -m)
built.py       a contender's graph compiled and bound to memory
timing.py      mode P: contenders measured in turns
simulate.py    mode S: one execution for simulators
distrust.py    reasons not to believe a measurement
buffers.py     memory for tensors, shared where lifetimes allow it
verbose.py     what -v adds
failure.py     what an exception means as a status
bench.py       clock, library and probes, which tests exchange
blas.py        one thread for numpy's products
machine.py     what the numbers were measured on
session.py     a command line run from its first case to its reports
begin.py       what a run needs before its first case
resume.py      --resume: results of an earlier run
outputs.py     where results go
standard.py    standard output that takes no more
interrupt.py   signals that end a run
isolate.py     --jobs: cases in worker processes
worker.py      such a process, from both ends
words.py       the options of commands beside a run
"""
