"""Other people's files as cases: logs of programs that use oneDNN become batch files; models, graphs with data.

model.py           reads a model from any file that can hold one
sizes.py           the sizes of a model's inputs: its own, and the user's for open dims
model_files.py     our own form of a model: JSON, and beside it data and names
pt2.py             files of torch.export.save, checked before PyTorch reads them
onnx/              ONNX models
verbose_line.py    a line of a verbose log: its fields, by the versions of oneDNN
verbose_file.py    a log, read as a stream: equal lines counted, their times added up
descriptors.py     memory descriptors and problems inside a line
attributes.py      primitive attributes as benchdnn's options
primitives.py      the table of primitives: how each becomes a line of its driver
graph_lines.py     executed partitions, and the dumps that hold their graphs
log_cases.py       what a log becomes: cases in order, and what cannot be one, each with its times
batch_file.py      the cases as a batch file
logged_times.py    where the time of a logged program went
"""
