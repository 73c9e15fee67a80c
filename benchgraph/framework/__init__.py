"""A small imperative framework on top of the library: what adopting it takes.

desc reorder             how memory is read, and the copies between one way and another
buffers chunk            memory of the library's engine; storage that arrays share
ndarray memory           arrays on that storage, handles that ops hold while they run
temp_space               temporary memory: one buffer per thread
request                  null, write_to, write_inplace, add_to
cache                    compiled kernels, per thread, bounded
kernel fallback dispatch one op: by the library, by numpy, and which
prepack                  weights change layout once
program executor         a graph: its steps for a set of shapes, where its values live (core/slots.py), and running them
context                  counters of all that
"""
