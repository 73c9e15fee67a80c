"""Results for people: lines on a terminal, tables, Markdown, drawings, pages. `reports/` are leaf plugins on top of it.

terminal.py            tables by rich, as plain text
word_wrap.py           wraps messages at the width of the terminal
progress.py            the progress line of a terminal
screen.py              the output of a run: cases as they finish, and the closing lines
contender_outcomes.py  results of several libraries on one case
perf_line.py           benchdnn's perf lines, filled in
time_table.py          the rows of a table of times
fallback.py            what of a case numpy executes
layer_table.py         the rows of a table of layers
markup.py              GitHub's Markdown
explain.py             an explanation of the compiler's decisions
ab/                    two versions compared as a table, Markdown, JSON, a page
compare/               a comparison as a table, as Markdown, as CSV
history.py             runs and changes as text
history_markdown.py    the same as Markdown
history_json.py        the same as JSON
show/                  a partitioned graph as text, DOT and SVG
page/                  results as one HTML file
dashboard/             a history as one HTML file
"""
