"""Decompositions of fused PyTorch ops that the table lacks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

aten = torch.ops.aten


def _attention(
    src: Tensor, heads: int, qkv: Tensor, qkv_bias: Tensor | None, out: Tensor, out_bias: Tensor | None, hidden: Tensor | None
) -> Tensor:
    """Self-attention of [batch, tokens, width], with three products on views of one weight tensor, so that no result needs splitting.
    hidden: true for masked positions; a token with all positions masked becomes NaN, as in eager, where scaled_dot_product_attention gives
    zeros.
    """
    batch, tokens, width = src.shape

    def projected(i: int) -> Tensor:
        rows = slice(i * width, (i + 1) * width)
        made = functional.linear(src, qkv[rows], None if qkv_bias is None else qkv_bias[rows])
        return made.view(batch, tokens, heads, width // heads).transpose(1, 2)

    mask = None
    if hidden is not None:
        mask = torch.zeros_like(hidden, dtype=src.dtype).masked_fill(hidden, -torch.inf)
        mask = mask.masked_fill(hidden.all(-1, keepdim=True), torch.nan)
    mixed = functional.scaled_dot_product_attention(projected(0), projected(1), projected(2), attn_mask=mask)
    return functional.linear(mixed.transpose(1, 2).reshape(batch, tokens, width), out, out_bias)


def _encoder_layer(
    src: Tensor,
    embed_dim: int,
    num_heads: int,
    qkv_weight: Tensor,
    qkv_bias: Tensor,
    proj_weight: Tensor,
    proj_bias: Tensor,
    use_gelu: bool,
    norm_first: bool,
    eps: float,
    norm_weight_1: Tensor,
    norm_bias_1: Tensor,
    norm_weight_2: Tensor,
    norm_bias_2: Tensor,
    ffn_weight_1: Tensor,
    ffn_bias_1: Tensor,
    ffn_weight_2: Tensor,
    ffn_bias_2: Tensor,
    mask: Tensor | None = None,
    mask_type: int | None = None,
) -> Any:
    """The op of torch.nn.TransformerEncoderLayer in eval mode. mask_type: 0, a mask of [tokens, tokens]; 1, of padding, [batch, tokens]; 2,
    of both, [batch, heads, tokens, tokens]. As in eager, nonzero positions are masked. Ragged batches are not decomposed.
    """
    if src.is_nested or src.dim() != 3 or (mask is not None and mask_type not in (0, 1, 2)):
        return NotImplemented
    masked = None if mask is None else mask.bool()
    if masked is not None and mask_type == 1:
        masked = masked.view(src.shape[0], 1, 1, src.shape[1])

    def attended(x: Tensor) -> Tensor:
        return _attention(x, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias, masked)

    def fed(x: Tensor) -> Tensor:
        inner = functional.linear(x, ffn_weight_1, ffn_bias_1)
        return functional.linear(functional.gelu(inner) if use_gelu else functional.relu(inner), ffn_weight_2, ffn_bias_2)

    def normed(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return functional.layer_norm(x, (embed_dim,), weight, bias, eps)

    if norm_first:
        x = src + attended(normed(src, norm_weight_1, norm_bias_1))
        return x + fed(normed(x, norm_weight_2, norm_bias_2))
    x = normed(src + attended(src), norm_weight_1, norm_bias_1)
    return normed(x + fed(x), norm_weight_2, norm_bias_2)


DECOMPOSITIONS: dict[Any, Callable[..., Any]] = {aten._transformer_encoder_layer_fwd.default: _encoder_layer}
