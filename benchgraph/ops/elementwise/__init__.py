"""Ops that work element by element, with broadcasting, and their gradients.

unary.py                ReLU, GELU, Exp, Clamp ...: one input
unary_backward.py       their gradients
unary_backward_data.py  test data for the gradients: derived from the forward op's, away from kinks
power.py                Pow
prelu.py                PReLU, PReLUBackward
binary.py               Add, Multiply, Maximum, GreaterEqual ...: two inputs that broadcast
select.py               Select
bias.py                 BiasAdd, BiasAddBackward
cast.py                 TypeCast
"""
