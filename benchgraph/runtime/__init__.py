"""LLVM IR to results.

code.py     IR text to machine code            jit.py         the same, bound to a thread runtime
threads.py  omp, threadpool, seq               pool.py        the threadpool's workers
memory.py   aligned buffers, allocators        executable.py  Executable, Bound, Chain
checks.py   do buffers fit?                    constants.py   what init computes, and the cache of it
disk.py     files that outlive the process      stored.py      executables as bytes
warm.py     executables from disk               sources.py     which compiler this is
user_pool.py  regions on a pool of the user's      peak.py   what the machine can do
"""
