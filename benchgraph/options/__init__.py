"""From words to problems: the command line, batch files, and the drivers' options. Imports neither numpy nor LLVM until a case is built.

parsers.py        values of options as text
knobs.py          a set of options as one frozen dataclass: names, defaults, product axes, repro words
values.py         values of the shared options that have a form of their own
matching.py       users' regular expressions, with a limit on their time
policy.py         a policy with the passes that are left out
perf_template.py  benchdnn's perf templates: which tokens there are
plugins.py        drivers/ and reports/, found and loaded by path
batch.py          batch files, and where files are found
problem.py        a driver with all its options fixed: repro line and graph
repro.py          a repro line taken apart again
argv.py           the command line as a state machine -> problems
"""
