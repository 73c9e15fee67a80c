"""What saved results say, without laying it out.

means.py    geometric means of ratios over groups of cases
origin.py   the commit and the time that a run belongs to
compare/    two sides of saved results
history/    runs in a database, and changes that last
"""
