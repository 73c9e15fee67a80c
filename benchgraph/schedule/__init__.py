"""The schedule of a nest: which ones there are, what each costs in nanoseconds, and the cheapest. All follows from the nest and one
machine table.

primitives.py   schedules as data, with text
nest.py         a nest of loops as its cost sees it: operands, and how they move along axes
gemm.py         products
steps.py        nests of products, and the loops of a schedule on the core with most work
space.py        the schedules that such a nest can have
traffic.py      bytes that come from beyond a cache, by the footprints of loops
limits.py       choices by limits that were measured, where the cost is too far off
tile_block.py   sums that a microkernel adds to at a time; code generation asks too
microkernel.py  cycles of a microkernel's calls
run.py          what the core with most work does in a scheduled nest of products
cost.py         the time of a scheduled nest of products, by what takes it, and of nests one after the other
choose.py       the schedule of least cost
window.py       windows: their nest, and the schedules that it can have
window_cost.py  the time of a scheduled window nest, and the schedule of least cost
elements.py     other nests without a product: what they access, and the schedules that they can have
elements_cost.py  the time of such a scheduled nest, and the schedule of least cost
tuning.py       tuning files: schedules of nests, by machine, which go before those of least cost
"""
