"""`benchgraph calibrate`: the rates of this machine (machine/rates.py), measured with our own code.

timed_loop.py        a loop in machine code, and the time of one of its units
arithmetic_loops.py  products on vector and tile registers, operations on vectors, the clock
memory_loops.py      bytes from and to each level of memory, latencies, lines that another core has written
overhead_loops.py    parallel loops, calls of microkernels, iterations
rounds.py            samples of all loops in turns, until time is up; their minima
rates.py             from nanoseconds of loops to rates
calibrate.py         all of them: the rates of a machine
"""
