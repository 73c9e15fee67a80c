"""Tensor IR: the loops-and-buffers language between Graph IR and LLVM.

The language
    operators.py         operators of expressions
    groups.py            dtypes that microkernels multiply, and how many elements along k a dot product takes
    ir.py                the nodes (frozen dataclasses)
    build.py             constructors that fold constants
    text.py              printing
    parse.py             parsing of what text.py prints
    operands.py          the operands of microkernels and packings, how far they reach, and how post-ops iterate
    interpret.py         the meaning, in Python
    values.py            what interpreted programs compute with
    verify.py            what every function must satisfy

Analyses and rewriting that passes share
    visit.py             walking, mapping and substitution
    affine.py            linear forms of indices, and bounds
    index.py             simplification of index expressions
    accesses.py          which elements statements access, independence of iterations, and which tensors may share memory
    def_before_use.py    whether elements are stored before they are loaded
    instructions.py      instructions of stores and statements
    loops.py             finding, taking apart, copying and replacing loops
    vector_loops.py      which loops can be vectorised, and their expressions in vectors
    transposition.py     loops that transpose a matrix
    cse.py               common subexpression elimination, while lowering
    passes/              one file per pass, PIPELINE in __init__.py
"""
