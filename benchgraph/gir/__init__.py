"""Graph IR: DNN ops with layouts, then fused ops with anchors. In reading order:

ir.py                   values with views and layouts, ops, fused ops of stages, the graph
parameters.py           the GEMM template's parameters, and what the Graph Compiler paper calls them
build.py                from a partition, and op by op
text.py                 the IR as text
parse.py                the text as IR
verify.py               what every graph satisfies
rewrite.py              graph algebra as patterns with examples, and the driver that applies them

Analyses:

views.py                layout ops, the index into a buffer that a chain of views is, and strides along loops
origins.py              which op of the partition each op comes from
channel_order.py        along which axis products write a value and read it
closure.py              everything that is reached along a relation
domain.py               the iteration space that ops can share
nest_graph.py           fused ops as a graph: borders, order, merging pairs
product.py              a contraction as a product: its axes in the buffers of its operands
gemv.py                 products of one column, or of few rows by weights stored by columns
gemm_nest.py            a product as the nest that its schedule is chosen for
elements.py             what other nests without a product access, their schedule, and inputs that nests beside each other share
windows.py              where taps of windows count, what neighbours share, and the nest that their schedule is chosen for
padding.py              which terms of sums are products with padding
batch_invariants.py     what a nest computes once per batch entry
flash_attention.py      nests that can use an online softmax
on_the_fly_packing.py   stages that convert or pack a block of weights right before it is read

Decisions:

layouts.py              blocked layouts, the width of a B panel
column_blocks.py        columns of a microkernel call and of a packed panel
packed_blocks.py        products with the blocks in which they read their weights, as their cost sees them
anchors.py              where post-ops run
nest_cost.py            nests as their cost sees them, and what scheduled ones take
product_space.py        the schedules that a nest of products can have, which tuning may prescribe
nest_schedule.py        the schedule of a nest, as parameters, anchors or data
nest_sequence.py        where a nest of several stages is cut: the sequence of nests that takes the least time

passes/                 one file per pass, and the PIPELINE
"""
