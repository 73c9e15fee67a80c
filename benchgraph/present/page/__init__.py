"""One page about one or several runs: a self-contained file that works offline, on a phone, by keyboard and in dark mode.

view.py           the content of the page as texts and numbers, run by run and case by case
layers.py         where the time of a case goes, layer by layer
partition_bar.py  segments of a bar of partition times
labels.py         short names of cases
charts.py         the plots, as SVG
svg_theme.py      makes a plot's SVG use the page's colours and font
templates.py      the templates of pages, and the style that pages share
page.py           renders all of it with the templates in this folder; pictures and long texts are compressed
"""
