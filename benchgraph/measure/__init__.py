"""Measuring: clocks, caches, machine peaks, and how samples are taken. Knows no problem and no command line.

sampling.py        hot and cold samples; interleaved sampling of several sources
call_loop.py       a loop in machine code that executes something many times
burst_timing.py    how many repetitions fill a given short time
calibration/       benchgraph calibrate: all rates of this machine
peak.py            the machine's peak rates in f32, bf16 and int8, and the microkernel's rate
arithmetic.py      which of these peaks a graph's rates are compared with
bandwidth.py       the read bandwidth of a working set of given size
cache_eviction.py  removes data from the caches
cold_cache.py      --cold-cache: which data are cold
streams.py         --num-streams: several executions at the same time
layers.py          the times of layers, from what a library's profiler tells
phases.py          the time of each phase of a case
"""
