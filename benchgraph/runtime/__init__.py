"""From LLVM IR to executables.

code.py                 LLVM IR to machine code in this process
llvm_without_lock.py    LLVM's long steps, called in parallel
threads.py              thread runtimes: omp, threadpool, seq
worker_pool.py          the workers of threadpool
jit.py                  machine code linked to a thread runtime
memory.py               aligned buffers, allocators
checks.py               whether buffers match the tensors of an executable
constants.py            constants that init computes, and the cache of them
executable.py           Executable, Bound, Chain
profiled.py             those of code that reads the clock between statements
user_pool.py            parallel regions on a user's thread pool
disk_cache.py           files that outlive the process
source_digest.py        a digest of the compiler's source files
serialise.py            executables as bytes
executable_cache.py     the disk cache of executables
"""
