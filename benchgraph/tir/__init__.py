"""Tensor IR: the loops-and-buffers language between Graph IR and LLVM.

ir.py         the nodes (frozen dataclasses)      build.py      constructors that fold constants
text.py       printing                            verify.py     what every function must satisfy
tasks.py      parallel loops cut into tasks         unkept.py     results that no cache keeps
interpret.py  the meaning, in Python              passes/       one file per pass, PIPELINE in __init__.py
"""
