"""Batch files for mode P: `benchgraph --mode=P --batch=perf_graph_mlp`. Sizes are those of inference and training, not of tests."""

from __future__ import annotations

BATCHES = {
    "perf_graph_mlp": (
        "Speed of perceptrons",
        (
            "--reset --dt=f32,bf16 --mb=1,32,128,512 --case=mlp.json",
            "--reset --mb=32,128,512 --case=quantised_mlp.json",
            "--reset --in-shapes=0:128x1024+1:1024x4096+3:1024x4096+8:4096x1024 --case=complex_fusion/gated_mlp.json",
        ),
    ),
    "perf_graph_rows": (
        "Speed with few rows, weights that change and constant ones: a language model that writes one word after the other, or reads a few",
        (
            *(
                f"--reset --dt=f32,bf16,f16 --in-shapes=0:{rows}x4096+1:{wei} {options}.json"
                for wei, options in (
                    ("4096x14336", "--tensor-property=1:variable --case=op/matmul"),
                    ("14336x4096", "--op-attrs=0:transpose_a:0 --case=op/matmul_transposed"),
                    ("4096x14336", "--tensor-property=1:constant --case=op/matmul"),
                )
                for rows in (1, 4, 8, 16, 64, "16x1")
            ),
            "--reset --dt=bf16,f16 --in-shapes=0:1x4096+1:4096x14336+3:4096x14336+7:14336x4096"
            " --case=complex_fusion/gated_mlp_f16_weights_that_change.json",
            "--reset --dt=f32,bf16,f16 --in-shapes=0:1x32x1x128+1:1x32x4096x128+6:1x1x1x4096+2:1x32x4096x128,"
            "0:1x8x4x1x128+1:1x8x1x4096x128+6:1x1x1x1x4096+2:1x8x1x4096x128 --case=complex_fusion/attention_transpose_b.json",
        ),
    ),
    "perf_graph_folds": (
        "Speed of what folds: over channels and images where they lie together and where they do not, sizes of images in networks",
        (
            "--reset --dt=f32,bf16 --in-shapes=0:64x128x28x28,0:64x512x28x28 --op-attrs=0:axis:1 --case=op/softmax.json",
            "--reset --dt=f32,bf16 --in-shapes=0:8x16x384x384 --op-attrs=0:axis:2,0:axis:3 --case=op/softmax.json",
            "--reset --dt=f32,bf16 --in-shapes=0:64x1024x14x14,0:64x64x112x112 --op-attrs=0:axes:1 --case=op/reducemin.json",
            "--reset --dt=f32,bf16 --in-shapes=0:64x512x28x28 --op-attrs=0:axes:0,0:axes:2x3 --case=op/reducemin.json",
            "--reset --dt=f32,bf16 --in-shapes=0:2x320x48x48+1:320+2:320 --op-attrs=0:groups:32 --case=op/groupnorm.json",
            "--reset --dt=f32,bf16 --in-shapes=0:2x48x48x320+1:320+2:320 --op-attrs=0:groups:32*data_format:NXC --case=op/groupnorm.json",
            "--reset --dt=f32,bf16 --in-shapes=0:8x16x384x384+1:384+2:384 --case=op/layernorm.json",
            "--reset --dt=f32,bf16 --in-shapes=0:8x16x384x384+1:8x16x384x384+2:8x16x384+3:8x16x384+4:384+5:384"
            " --case=op/layernormbackward.json",
        ),
    ),
    "perf_graph_movement": (
        "Speed of what moves: between channels first and last, of transposed convolutions that have channels first, and to other sizes",
        (
            "--reset --dt=f32,bf16 --in-shapes=0:4096x77,0:77x4096,0:1001x999 --op-attrs=0:order:1x0 --case=op/transpose.json",
            "--reset --dt=f32,bf16 --in-shapes=0:8x197x768 --op-attrs=0:order:0x2x1 --case=op/transpose.json",
            "--reset --dt=f32,bf16 --in-shapes=0:2x64x56x56,0:4x192x35x35 --op-attrs=0:order:0x2x3x1 --case=op/transpose.json",
            "--reset --dt=f32,bf16 --in-shapes=0:2x56x56x64,0:1x57x57x128 --op-attrs=0:order:0x3x1x2 --case=op/transpose.json",
            "--reset --dt=f32,bf16 --in-shapes=0:16x32x8x24x20 --op-attrs=0:order:4x3x2x1x0 --case=op/transpose.json",
            "--reset --dt=f32,bf16 --in-shapes=0:2x512x4x4+1:512x256x3x3+2:256,0:2x128x16x16+1:128x64x3x3+2:64"
            " --case=op/convtranspose.json",
            "--reset --dt=f32,bf16 --in-shapes=0:2x256x8x8+1:512x256x3x3,0:2x64x32x32+1:128x64x3x3"
            " --op-attrs=0:data_format:NCX*weights_format:IOX*pads_end:0x0 --case=op/convtranspose_backward_data.json",
            "--reset --dt=f32,bf16 --in-shapes=0:2x512x4x4+1:2x256x8x8"
            " --op-attrs=0:data_format:NCX*weights_format:IOX*pads_end:0x0*weights_shape:512x256x3x3"
            " --case=op/convtranspose_backward_weights.json",
            "--reset --dt=f32,bf16 --in-shapes=0:2x64x32x32,0:2x21x64x64,0:2x3x224x224"
            " --op-attrs=0:data_format:NCX*scales:2x2,0:data_format:NCX*scales:1.335x1.335 --case=op/interpolate.json",
            "--reset --dt=f32,bf16 --in-shapes=0:2x32x32x64,0:1x28x28x256 --op-attrs=0:scales:2x2 --case=op/interpolate.json",
        ),
    ),
    "perf_graph_mha": (
        "Speed of attention",
        (
            "--reset --dt=f32,bf16 --mb=1,32 --case=attention.json",
            "--reset --mb=1,32 --case=complex_fusion/attention_causal_mask.json",
            "--reset --mb=1,32 --case=complex_fusion/attention_grouped_queries.json",
            "--reset --mb=1,32 --case=complex_fusion/attention_int8.json",
            "--reset --mb=1,32 --case=complex_fusion/attention_compressed_keys_and_values.json",
        ),
    ),
    "perf_graph_op": (
        "Speed of single ops on tensors larger than the caches, and on some that fit",
        (
            *(
                f"--reset --dt=f32,bf16 --in-shapes=0:128x768,0:4096x4096 --case=op/{name}.json"
                for name in ("relu", "gelu", "tanh", "exp", "sigmoid")
            ),
            "--reset --dt=f32,bf16 --in-shapes=0:4096x4096+1:4096x4096,0:4096x4096+1:4096 --case=op/add_broadcast.json",
            "--reset --dt=f32,bf16 --in-shapes=0:8x128x128,0:64x512x512 --case=op/softmax.json",
            "--reset --dt=f32,bf16 --in-shapes=0:8x128x100,0:64x512x100 --case=op/layernorm.json",
            "--reset --dt=f32,bf16 --in-shapes=0:64x512x512 --case=op/reduce_sum.json",
            "--reset --in-shapes=0:64x128x16x64 --case=op/transpose.json",
            "--reset --dt=f32,bf16 --in-shapes=0:128x1024+1:1024x1024,0:1024x1024+1:1024x1024 --case=op/matmul.json",
        ),
    ),
    "perf_graph_conv": (
        "Speed of convolutions and pooling; the sizes are those of ResNet-50's stages, and of small images with many channels",
        (
            "--reset --in-shapes=0:8x56x56x64+1:3x3x64x64+2:64,0:8x28x28x128+1:3x3x128x128+2:128 --case=op/conv.json",
            "--reset --in-shapes=0:8x14x14x256+1:3x3x256x256+2:256,0:8x7x7x512+1:3x3x512x512+2:512 --case=op/conv.json",
            "--reset --dt=f32,bf16 --in-shapes=0:8x7x7x1024+1:3x3x1024x1024+2:1024,0:1x7x7x1024+1:3x3x1024x1024+2:1024 --case=op/conv.json",
            "--reset --mb=8 --case=complex_fusion/bottleneck.json",
            "--reset --mb=8 --case=pattern/conv_depthwise_pointwise.json",
            "--reset --in-shapes=0:8x112x112x64 --case=op/maxpool.json",
        ),
    ),
}
