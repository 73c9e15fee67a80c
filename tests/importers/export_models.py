"""Real architectures with random weights as ONNX files, as their users would export them: `python -m tests.importers.export_models FOLDER
[NAME ...]`. Needs the extra `models`. Files that are there stay. Beside what PyTorch exports to ONNX lies the program of torch.export.

Convolutional networks have their full sizes, transformers few and narrow layers.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

IMAGE = (1, 3, 224, 224)
TOKENS = (1, 128)
LAYERS, WIDTH, HEADS, GROUPS = 4, 256, 8, 2
VOCABULARY = 1000
BLOCK = 32  # rows of a column of weights that share a scale
CALIBRATIONS = 4


def exported(make: Callable[[], tuple[Any, tuple[Any, ...]]]) -> Callable[[Path], None]:
    """make: a module of torch, and inputs for it."""

    def write(file: Path) -> None:
        import torch

        torch.manual_seed(0)
        module, inputs = make()
        with torch.no_grad():
            torch.onnx.export(module.eval(), inputs, str(file), external_data=False, verbose=False)
            torch.export.save(torch.export.export(module, inputs), str(file.with_suffix(".pt2")))

    return write


def _images(name: str) -> tuple[Any, tuple[Any, ...]]:
    import torch
    import torchvision

    return getattr(torchvision.models, name)(weights=None), (torch.randn(IMAGE),)


def _vit() -> tuple[Any, tuple[Any, ...]]:
    import torch
    from torchvision.models import VisionTransformer

    model = VisionTransformer(224, 16, LAYERS, HEADS, WIDTH, 4 * WIDTH)
    torch.nn.init.normal_(model.heads.head.weight, std=0.02)  # which are zeros, and so would be all results
    return model, (torch.randn(IMAGE),)


def _language(name: str, **sizes: Any) -> tuple[Any, tuple[Any, ...]]:
    """A model of transformers by its name there, that takes tokens and gives its last hidden states."""
    import torch
    import transformers

    config = getattr(transformers, f"{name}Config")(vocab_size=VOCABULARY, use_cache=False, attn_implementation="eager", **sizes)
    return First(getattr(transformers, f"{name}Model")(config)), (torch.randint(0, VOCABULARY, TOKENS),)


def _whisper() -> tuple[Any, tuple[Any, ...]]:
    import torch
    from transformers import WhisperConfig
    from transformers.models.whisper.modeling_whisper import WhisperEncoder

    frames = 256
    config = WhisperConfig(
        d_model=WIDTH, encoder_layers=LAYERS, encoder_attention_heads=HEADS, encoder_ffn_dim=4 * WIDTH, max_source_positions=frames
    )
    return First(WhisperEncoder(config)), (torch.randn(1, config.num_mel_bins, 2 * frames),)


def First(module: Any) -> Any:  # noqa: N802  # a class, whose base is imported late
    """The first result of a module alone, as a module."""
    import torch

    class Wrapped(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.module = module

        def forward(self, x: Any) -> Any:
            return self.module(x, return_dict=False)[0]

    return Wrapped()


_BERT = {"hidden_size": WIDTH, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "intermediate_size": 4 * WIDTH}
_GPT2 = {"n_embd": WIDTH, "n_layer": LAYERS, "n_head": HEADS}
_LLAMA = _BERT | {"num_key_value_heads": GROUPS, "intermediate_size": 3 * WIDTH}


def _quantised_to_8_bits(source: str) -> Callable[[Path], None]:
    """QDQ as ONNX Runtime's tool writes it: u8 activations, s8 weights by channel."""

    def write(file: Path) -> None:
        from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

        rng = np.random.default_rng(0)

        class Data(CalibrationDataReader):  # type: ignore[misc]
            def __init__(self) -> None:
                self.left = CALIBRATIONS

            def get_next(self) -> Any:
                self.left -= 1
                return {input_name(original): rng.standard_normal(IMAGE).astype(np.float32)} if self.left >= 0 else None

        original = needed(file.parent, source)
        kinds = {"activation_type": QuantType.QUInt8, "weight_type": QuantType.QInt8}
        quantize_static(str(original), str(file), Data(), quant_format=QuantFormat.QDQ, per_channel=True, **kinds)

    return write


def input_name(file: Path) -> str:
    import onnx

    return str(onnx.load(str(file)).graph.input[0].name)


def _quantised_to_4_bits(source: str, is_qdq: bool) -> Callable[[Path], None]:
    """Weights in blocks: MatMulNBits, or DequantizeLinear with block_size."""

    def write(file: Path) -> None:
        import onnx
        from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer
        from onnxruntime.quantization.quant_utils import QuantFormat

        model = onnx.load(str(needed(file.parent, source)))
        if is_qdq:
            model = onnx.version_converter.convert_version(model, 21)
        form = QuantFormat.QDQ if is_qdq else QuantFormat.QOperator
        tool = MatMulNBitsQuantizer(model, block_size=BLOCK, is_symmetric=not is_qdq, quant_format=form)
        tool.process()
        onnx.save(tool.model.model, str(file))

    return write


MODELS: dict[str, Callable[[Path], None]] = {
    "resnet18": exported(lambda: _images("resnet18")),
    "resnet50": exported(lambda: _images("resnet50")),
    "mobilenet_v3": exported(lambda: _images("mobilenet_v3_large")),
    "efficientnet_b0": exported(lambda: _images("efficientnet_b0")),
    "vit": exported(_vit),
    "bert": exported(lambda: _language("Bert", **_BERT)),
    "gpt2": exported(lambda: _language("GPT2", **_GPT2)),
    "llama": exported(lambda: _language("Llama", **_LLAMA)),
    "whisper_encoder": exported(_whisper),
    "resnet50_qdq": _quantised_to_8_bits("resnet50"),
    "llama_int4": _quantised_to_4_bits("llama", is_qdq=False),
    "llama_int4_qdq": _quantised_to_4_bits("llama", is_qdq=True),
}


def needed(folder: Path, name: str) -> Path:
    """The file of a model, which is written if it is not there."""
    file = folder / f"{name}.onnx"
    if not file.exists():
        folder.mkdir(parents=True, exist_ok=True)
        MODELS[name](file)
    return file


def main(folder: str, *names: str) -> None:
    for name in names or MODELS:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            print(needed(Path(folder), name), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
