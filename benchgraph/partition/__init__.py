"""Which ops are compiled and executed together. In reading order:

ir.py               Partition and Policy
convexity.py        whether ops can be one partition without a cycle of partitions
rules/              one file per rule; RULES by policy
partitioner.py      applies the rules to a graph
"""
