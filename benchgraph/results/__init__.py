"""The results of a run: plain data without numpy, written as JSON and read back.

mode.py        benchdnn's modes
machine.py     the machines that results come from, and which of them are of one kind
result.py      status, timings and the result of a case and of a run; the commit of a run
fallback_kind.py  ops that numpy executes
difference.py  where several libraries differ
layers.py      where the time of a graph goes, layer by layer
accuracy.py    the error of an output against the reference result, and its limit
roofline.py    arithmetic intensity and shares of the machine's peaks
sketch.py      the part of a graph that its drawing needs
exit_codes.py  the meaning of exit codes
json_report.py the JSON report: written and read
growing_report.py  one that grows while a run lasts
saved.py       reads a JSON report from its file
validate.py    checks values read from a JSON report
"""
