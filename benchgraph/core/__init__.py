"""What all packages share: data types, logical tensors, errors, configuration, the loop that runs passes.

version.py         version of the package, where and when it was loaded
dtypes.py          data types
layout.py          layouts of tensors, and the ids of opaque ones
tensor.py          logical tensors
arrays.py          logical tensors as numpy arrays, s4 and u4 among them
array_files.py     arrays in files: .npz, .npy, .safetensors
attrs.py           attributes of ops
errors.py          errors, each with what, where and how to fix it
remarks.py         warnings about what is accepted all the same
config.py          environment variables
isa.py             ISA levels
options.py         options of compiling a partition
passes.py          passes, and the loop that runs, verifies, prints and times them
record.py          a record of a compilation, for `benchgraph explain`
formats.py         numbers as text, for tables and pages
implementation.py  names of what a library ran
layers.py          layers of an execution, and when each ran
serving.py         the process's side of a library in a process of its own
onnx_names.py      names of layers in ONNX models
fields.py          frozen dataclasses as text, field by field
tokens.py          tokens of the text forms of IRs, for their parsers
memoise.py         memoised functions of frozen values
canonical.py       canonical text of values, for digests
divisors.py        divisors, block sizes and even splits
slots.py           memory planning: values with disjoint lifetimes share slots
philox.py          random numbers
progress.py        progress, reported to a watcher
printable.py       text from outside made safe for a line of output
git.py             questions to git
files.py           files that a user names
json_objects.py    objects of JSON files, and keys that they have twice
free_memory.py     how much memory is free
pages.py           fresh pages of memory
gc_pause.py        compiling without garbage collection
forks.py           locks that survive forks
wait_idle.py       waits until idle threads of this process sleep
child_process.py   child processes that answer over a pipe
"""
