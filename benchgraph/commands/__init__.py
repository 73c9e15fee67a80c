"""The commands besides running cases, one file each; `benchgraph/cli.py` calls them.

help.py           --help: overview, a command, a driver
help_page.py      a page of help
localise.py       the first wrong op of a case
listing.py        list: batch files, drivers, reports, policies
ops.py            ops: the op table
show.py           show: the partitioned graph
explain.py        explain: the compiler's decisions
import_.py        import: a verbose log as a batch file
opt.py            opt: passes over the text of an IR
compile_times.py  compile-times: cold and warm
calibrate.py      calibrate: the machine's rates
tune.py           tune: measures schedule parameters
fuzz.py           fuzz: random graphs
ab.py             ab: two versions, measured
bisect.py         bisect: the commit that made a case slower or wrong
compare.py        compare: two sets of saved results
history.py        history and regressions
render.py         render: saved results as any report
merge.py          merge: the shards of a run
former_names.py   words of commands under their former names
"""
