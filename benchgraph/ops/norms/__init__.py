"""Normalisations and their gradients.

normalise.py   what they share: attributes, statistics, decompositions, laws
layer_norm.py  LayerNorm, LayerNormBackward
group_norm.py  GroupNorm
rms_norm.py    RMSNorm
batch_norm.py  BatchNormInference, BatchNormForwardTraining, BatchNormTrainingBackward
"""
