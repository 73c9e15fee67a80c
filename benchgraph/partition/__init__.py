"""Which ops are compiled and executed together.

ir.py            Partition, Policy            partitioner.py   rules applied to a graph
convexity.py     may these ops be one?        rules/           one file per rule; RULES by policy
streams.py       which tensors are for products alone
"""
