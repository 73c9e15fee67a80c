"""Results for people: lines on a terminal, tables, Markdown, drawings, pages. `reports/` are leaf plugins over it.

terminal.py   tables by rich, as plain text
prose.py      sentences folded at the width of the terminal
progress.py   one status line on a terminal
screen.py     what a run prints: cases as they finish, and the closing lines
contender_outcomes.py  results of several libraries on one case
perf_line.py  benchdnn's perf lines, filled in
cells.py      the rows of a table of times
markup.py     GitHub's Markdown
explain.py    an explanation of what the compiler decided
compare/      a comparison as a table, as Markdown, as CSV
history/      runs and changes as text
show/         a partitioned graph as text, DOT and SVG
page/         results as one HTML file
"""
