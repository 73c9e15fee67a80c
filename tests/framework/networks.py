"""Deep networks of plain torch.nn, for what compiling them costs: the residual networks of He et al., as torchvision lays them out."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

STAGES = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3)}  # blocks
WITH_BOTTLENECKS = 50  # layers, from which on a block is three convolutions instead of two
WIDENING = 4  # from the columns inside of a bottleneck to those that leave it


def _normed(inside: int, outside: int, size: int, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(inside, outside, size, stride, size // 2, bias=False), nn.BatchNorm2d(outside))


class Block(nn.Module):
    """What stages are made of. width: columns of its 3x3 convolution, where the stride is."""

    def __init__(self, inside: int, width: int, stride: int, *, is_bottleneck: bool) -> None:
        super().__init__()
        outside = width * WIDENING if is_bottleneck else width
        if is_bottleneck:
            layers = [_normed(inside, width, 1), nn.ReLU(), _normed(width, width, 3, stride), nn.ReLU(), _normed(width, outside, 1)]
        else:
            layers = [_normed(inside, width, 3, stride), nn.ReLU(), _normed(width, outside, 3)]
        self.long = nn.Sequential(*layers)
        self.short = nn.Identity() if inside == outside and stride == 1 else _normed(inside, outside, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.long(x) + self.short(x))


def resnet(layers: int, *, width: int = 64, classes: int = 1000) -> nn.Module:
    """In eval mode, of [batch, 3, height, width] pixels. layers: a key of STAGES; width: columns of the first stage."""
    return residual(STAGES[layers], is_bottleneck=layers >= WITH_BOTTLENECKS, width=width, classes=classes)


def residual(stages: Sequence[int], *, is_bottleneck: bool, width: int, classes: int) -> nn.Module:
    """Such a network of any depth. stages: the blocks of each; the columns double, and the pixels are a quarter, from one to the next."""
    made: list[nn.Module] = [_normed(3, width, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    inside = width
    for stage, blocks in enumerate(stages):
        for i in range(blocks):
            made.append(Block(inside, width << stage, 2 if stage and not i else 1, is_bottleneck=is_bottleneck))
            inside = (width << stage) * (WIDENING if is_bottleneck else 1)
    return nn.Sequential(*made, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inside, classes)).eval()
