"""One page about one or several runs: a file that needs nothing else, and works offline, on a phone, by keyboard and in the dark.

view      what the page says, as texts and numbers, run by run and case by case
charts    the plots, as SVG
labels    short names for them, which tell cases apart
themed    their text, as a part of the page
store     the partitioned graph of each case, as SVG, packed
page      all of it through the templates beside these files
command   the words behind `benchgraph report`
"""
