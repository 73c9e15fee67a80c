"""Quantisation, and arithmetic on quantised operands.

quantize.py            Quantize, Dequantize
dynamic_quantize.py    DynamicQuantize, DynamicDequantize: scales that are known only at execution
bounded_reciprocal.py  _BoundedReciprocal: the factor that replaces a division by such a scale
quantised_product.py   products in integers, with _Recentre and _Total for their zero points
rescaling.py           several scalings and shifts on the way to 8 bits as one
"""
