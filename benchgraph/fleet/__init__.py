"""A batch on many machines: --cluster (docs/fleet.md). Dask distributed knows the workers and carries calls; this decides what runs where.

runner.py       --cluster for a command line: who is there, and its cases run there
driver.py       the loop: cases go out, answers come in, workers come and go
case_book.py    waiting and sent cases, each of which gets one result
losses.py       whether a case is to blame for the workers that were lost while it ran
placement.py    which case runs on which host
roster.py       the workers: greeted, surveyed, silent, gone
selection.py    which workers may be used: of the same code, and as --where says
engine.py       what the driver asks of an engine
dask_engine.py  the engine over Dask distributed
parcel.py       what client and workers send each other
at_worker.py    what a worker does
survey.py       the process in which a worker surveys its machine
host_lock.py    timed cases alone on a host, whoever runs others there
simulate.py     simulated workers, to measure what a fleet costs (python -m)
content.py      files by the digest of their content
"""

from benchgraph.fleet.runner import Fleet, fleet, need_cluster_options

__all__ = ["Fleet", "fleet", "need_cluster_options"]
