"""Statistics of saved results, without their presentation.

mean_ratios.py      geometric means of ratios over groups of cases
repeated_layers.py  layers of repeated blocks as one
run_origin.py       the commit and start time of a run
merge.py            the shards of a run as one run
inference/          faster, slower or the same, from samples with errors
ab/                 two versions in several launches
compare/            comparison of two sets of saved results
history/            runs in a database, and change points
"""
