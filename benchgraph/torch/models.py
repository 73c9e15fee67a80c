"""Three models to test the bridge: an MLP, a transformer encoder layer, a convolutional network.

`size` scales them: 1 is for tests; the table uses sizes that are typical for inference on a CPU.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Model:
    """make(size): the module, in f32, for inference. example(size, batch): an input for it. size: of the table's."""

    make: Callable[[int], nn.Module]
    example: Callable[[int, int], Tensor]
    size: int


def _mlp(size: int) -> nn.Module:
    wide = 32 * size
    return nn.Sequential(nn.Linear(wide, 2 * wide), nn.ReLU(), nn.Linear(2 * wide, 2 * wide), nn.GELU(), nn.Linear(2 * wide, wide))


def _encoder(size: int) -> nn.Module:
    return nn.TransformerEncoderLayer(32 * size, 4, 128 * size, dropout=0.0, batch_first=True)


def _cnn(size: int) -> nn.Module:
    c = 8 * size
    return nn.Sequential(
        nn.Conv2d(3, c, 3, padding=1),
        nn.BatchNorm2d(c),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(c, c, 3, padding=1, groups=c),
        nn.Conv2d(c, 2 * c, 1),
        nn.BatchNorm2d(2 * c),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(2 * c, 10),
    )


MODELS = {
    "mlp": Model(_mlp, lambda size, batch: torch.randn(batch, 32 * size), 16),
    "encoder": Model(_encoder, lambda size, batch: torch.randn(batch, 16 * size, 32 * size), 8),
    "cnn": Model(_cnn, lambda size, batch: torch.randn(batch, 3, 16 * size, 16 * size), 4),
}


def make(name: str, size: int, dtype: torch.dtype) -> nn.Module:
    """A model whose normalisations have an effect: their statistics and factors are not the initial ones."""
    torch.manual_seed(0)
    made = MODELS[name].make(size).eval()
    with torch.no_grad():
        for module in made.modules():
            if isinstance(module, nn.BatchNorm2d | nn.LayerNorm):
                module.weight.uniform_(0.5, 1.5)
                module.bias.uniform_(-0.5, 0.5)
            if isinstance(module, nn.BatchNorm2d):
                module.running_mean.uniform_(-0.5, 0.5)
                module.running_var.uniform_(0.5, 1.5)
    return made.to(dtype)


def example(name: str, size: int, batch: int, dtype: torch.dtype) -> Tensor:
    torch.manual_seed(batch)
    return MODELS[name].example(size, batch).to(dtype)
