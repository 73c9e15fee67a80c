"""`benchgraph tune`: the schedule's choice against every legal one.

command.py   the words, and what they ask for        search.py   the measurement        text.py   what it came to
"""
