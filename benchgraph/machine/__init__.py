"""What a machine is and what it can do. Imports core alone.

rates.py         what a machine does in a nanosecond
table_file.py    files of tables: what one says, and which of them a machine's values come from
table_text.py    a measured table as the text of a file
levels.py        rates at another ISA level than a table's
table.py         a target's rates, and thresholds of choices
identify.py      which table a CPU has
target.py        the machine that code is compiled for: ISA level (core/isa.py), caches, cores
identity.py      what tells a machine from others whose CPU has the same name
topology.py      how its processors lie on cores and caches, and the share of them that a container gets
cpu_affinity.py  the processors that measurements run on

tables/*.toml    rates and thresholds with their sources: generic.toml, a file for each ISA level, and one for each vendor and
                 microarchitecture that is known
"""
