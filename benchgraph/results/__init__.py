"""What running problems leaves behind: plain data without numpy, written as JSON and read back.

mode.py        what a case is run for: benchdnn's modes
result.py      statuses, timings, the result of a case, of a run; the machine and the place in history that it belongs to
accuracy.py    how far an output was from the reference result, and the limit it was compared with
roofline.py    work against what the machine can do
sketch.py      a graph, as much of it as a picture needs
exit_codes.py  what the command's exit codes mean
saved.py       the JSON report, also written while cases finish
sound.py       checks a JSON report that is read
"""
