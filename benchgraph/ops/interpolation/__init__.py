"""Interpolation and its gradient.

dims.py         the coordinates of outputs along a spatial dim, and whether to interpolate dim by dim
interpolate.py  Interpolate, InterpolateBackward
"""
