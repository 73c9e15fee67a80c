"""What machines are like, as data: rates, costs and shares of caches, each with where it was measured. May import core alone.

table.py       MachineTable, and which one is a target's
tables/*.toml  generic.toml for all machines, and a file for each ISA level with values of its own
"""
