"""`benchgraph compare`: two sides of saved results, and what changed from one to the other.

sides        JSON reports read, refused or paired by what their cases mean
statistics   is it faster, slower or the same? Free of files and of everything else
differences  the comparison: verdicts, statuses, accuracy, compile times
table        for terminals
markdown     for pull requests; csv for spreadsheets
command      the words, and the exit code
"""
