"""Pooling and its gradients.

pool.py           AvgPool, MaxPool
pool_backward.py  AvgPoolBackward, MaxPoolBackward
"""
