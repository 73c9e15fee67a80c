"""One page about one or several runs: a file that needs nothing else, and works offline, on a phone, by keyboard and in the dark.

view.py    what the page says, as texts and numbers, run by run and case by case
pieces.py  a bar of partitions cut into parts that can be told apart
labels.py  short names of cases
charts.py  the plots, as SVG
themed.py  their text, as a part of the page
store.py   the partitioned graph of each case, as SVG, packed
page.py    all of it through the templates beside these files
"""
