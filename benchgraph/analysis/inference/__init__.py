"""Inference on times: what one series of samples tells, what several runs tell, and when many cases may be called changed.

within_run.py    the error of the median of correlated samples with outliers; intervals within a run
between_runs.py  the variance between runs, moderated over cases; standard errors of log ratios
verdicts.py      slower, faster or the same, with few false alarms among many cases
"""
