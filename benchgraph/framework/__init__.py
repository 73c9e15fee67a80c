"""A small imperative framework on top of the library, to show what adopting the library takes.

memory_desc.py     dtype, dims and layout of memory
reorder.py         converts values between layouts
shared_storage.py  memory of the library's engine, shared by arrays
temp_space.py      memory of a running op: handles, and temporaries from one buffer per thread
ndarray.py         arrays on that memory
counters.py        counters per run
request.py         write requests: null, write_to, write_inplace, add_to
kernel_cache.py    a bounded cache of compiled kernels per thread
kernel.py          a compiled partition as the framework calls it
fallback.py        ops that the library cannot run, by numpy
dispatch.py        one op: by the library or by numpy
prepack.py         converts the layout of weights once
program.py         a graph compiled for a set of shapes
execution.py       one run of a program
executor.py        a graph run on arrays
torch.py           the public name of the PyTorch bridge
"""
