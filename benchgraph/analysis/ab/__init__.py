"""Two versions of a library on the same cases, each in a process of its own, in several launches.

judge.py       slower, faster, same or cannot tell: a paired analysis of samples
findings.py    kinds of findings, and what a status that changed is
comparison.py  what ran of every case, and all that is found of it
sequential.py  a test that takes as many launches as it needs
bisection.py   the first bad of a row of commits
"""
