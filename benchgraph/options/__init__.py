"""The command line, batch files and the drivers' options. Imports neither numpy nor LLVM until a case is built.

parsers.py        parsers of option values, for every kind of option
knobs.py          a set of options as one frozen dataclass; the global options
library_name.py   names of libraries under test, and what results call them
global_parsers.py parsers of the global options: policies, libraries, reports, cold caches
matching.py       users' regular expressions, with a time limit
policy.py         a policy and the passes that it leaves out
perf_template.py  benchdnn's perf templates: the known tokens
plugins.py        drivers/ and reports/, found and loaded by path
batch.py          words of batch files; where files are looked up
problem.py        a driver with one value for each option; its repro line and graph
repro.py          parses repro lines
argv.py           parses the command line into problems
"""
