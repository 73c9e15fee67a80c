"""What the schedules of a nest cost, in nanoseconds, from the nest, the schedule, and the rates of one machine table; nothing else.

nest.py         a nest of loops as its cost sees it: operands, and the axes they move along
traffic.py      bytes that come from beyond a cache, by the footprints of loops
gemm.py         products: their nest, how it is tiled, and its loops on the core with most work
tile_block.py   tiles of sums that a microkernel adds to at a time; code generation asks too
microkernel.py  cycles of a microkernel's calls
cost.py         the time of a tiled product, by what takes it
"""
