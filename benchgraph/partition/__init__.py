"""Which ops are compiled and executed together.

ir.py           Partition, Policy
convexity.py    whether ops may be put together without a cycle of partitions
rules/          one file per rule; RULES by policy
partitioner.py  rules applied to a graph
streams.py      which tensors between partitions only products read
"""
