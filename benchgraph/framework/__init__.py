"""A small imperative framework on top of the library: what adopting it takes.

desc.py        how memory is read: dtype, dims, layout
buffers.py     memory of the library's engine
chunk.py       storage that arrays share
memory.py      handles that ops hold while they run
ndarray.py     arrays on that storage
reorder.py     values from one layout to another
temp_space.py  temporary memory: one buffer per thread
context.py     counters
request.py     null, write_to, write_inplace, add_to
cache.py       compiled kernels, per thread, bounded
kernel.py      a compiled partition as the framework calls it
fallback.py    what the library cannot do, by numpy
dispatch.py    one op: by the library or by numpy
prepack.py     weights change layout once
program.py     a graph made ready for a set of shapes
execution.py   one run of a program
executor.py    a graph run on arrays
torch.py       the public name of the PyTorch bridge
"""
