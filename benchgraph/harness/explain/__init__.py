"""`benchgraph explain`: what the compiler chose for a case, and why.

command.py   the words, and what they ask for        text.py   for terminals, in 100 columns
"""
