"""Softmax, its logarithm, and their gradients.

softmax.py           SoftMax
softmax_backward.py  SoftMaxBackward
log_softmax.py       LogSoftmax, LogSoftmaxBackward
"""
