"""Measuring: clocks, caches, peaks, and how samples are taken. Knows no problem and no command line.

sampling.py    what a sample is, and how those of several sources are taken in turns
call_loop.py   a loop of machine code that executes something many times
burst.py       how many repetitions fill a burst of a given time
peak.py        the peak rates of the machine in f32, bf16 and int8, and the microkernel's
arithmetic.py  which of these peaks a graph's rates are a share of
bandwidth.py   the read bandwidth of a given size of memory
evict.py       removing data from the caches
cold.py        --cold-cache: which data an execution finds in memory
streams.py     --num-streams: several executions in flight
phases.py      where a case's time goes, phase by phase
"""
