"""What a machine is and what it can do. Imports core alone.

table.py         rates, costs and shares of caches, and which table is a target's
target.py        the machine that code is compiled for: ISA level (core/isa.py), caches, cores
identity.py      what tells a machine from others whose CPU has the same name
topology.py      how its processors lie on cores and caches, and the share of them that a container gets
cpu_affinity.py  the processors that measurements run on
tuning.py        tuning files: parameters of single problems, by machine

tables/*.toml    the values of table.py with units and sources: generic.toml, and a file for each vendor, family and ISA level
                 that differs
"""
