"""The commands beside a run, one file each; `benchgraph/cli.py` calls them.

help.py           --help: of everything, of a command, of a driver
listing.py        list: batch files, drivers, reports, policies
ops.py            ops: the op table for people
show.py           show: the partitioned graph
explain.py        explain: what the compiler decided
compile_times.py  compile-times: cold and warm
tune.py           tune: schedules against each other
fuzz.py           fuzz: random graphs
compare.py        compare: two sides of saved results
history.py        history and regressions
report.py         report: a page
"""
