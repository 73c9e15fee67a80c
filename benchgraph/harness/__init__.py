"""Runs the problems of a command line and collects their results, in this process or in workers.

case.py                 runs one case, step by step, and one case after another
partitioning.py         partitions a graph and compiles the partitions
fallback.py             Wildcards that numpy executes between the partitions of any library
contenders.py           what a case compares: libraries under policies
bound.py                a compiled partition bound to memory, and executed
inputs.py               data of a case's inputs, by mode and option
user_data.py            data of the user's
tuning_rows.py          what became of tuning files
verdict.py              compares outputs with the reference: right, wrong, or proving nothing
saved_failures.py       --save-failures: a folder per failed case
implementations.py      what each contender ran on; --check-ref-impl
localise.py             the first wrong op of a case, alone or within its partition
framework_check.py      compares outputs of the framework layer with the reference
latency.py              the overhead of the framework layer at batch 1 (python -m)
built.py                compiles a contender's graph and binds it to memory
timing.py               mode P: measures contenders, interleaved
layers.py               times the layers of a contender's graph
simulate.py             mode S: one execution for simulators
buffers.py              memory for tensors, shared where lifetimes allow it
verbose.py              the output of -v
bench.py                clock, libraries and probes, which tests replace
blas_threads.py         one thread for numpy's products
machine.py              the machine that is measured on
session.py              runs a command line from its first case to its reports
start_run.py            preparations of a run before its first case
resume.py               --resume: results of an earlier run
outputs.py              destinations of results
standard_streams.py     standard output and error that fail
interrupt.py            signals that end a run
isolate.py              --jobs: cases in worker processes
worker.py               a worker process, and its parent's handle of it: deadlines, kill
command_words.py        the words after commands
command_reports.py      --report of commands
ab/                     two versions, checked and timed against each other
"""
