# SPDX-License-Identifier: Apache-2.0
"""Diffusion and volumes: own modules (bench/zoo/modules.py) in the form of Stable Diffusion's and nnU-Net's."""

from bench.zoo.network import Input, Network

_LATENT = Input("latent", "signal", (1, 4, "H", "W"))
_LATENTS = ({"H": 16, "W": 24}, {"H": 24, "W": 40})

NETWORKS = (
    Network(
        "unet-2d", "own.DiffusionUNet", dict(channels=(16, 32), groups=8, heads=2, context=24),
        (_LATENT, Input("timestep", "unit", (1,)), Input("context", "signal", (1, "T", 24))),
        tuple({**size, "T": 7} for size in _LATENTS), "noise", dynamic=("H", "W"),
        large=dict(channels=(320, 640, 1280), groups=32, heads=8, context=768, H=64, W=64),
    ),
    Network(
        "vae-decoder", "own.VaeDecoder", dict(channels=(32, 16, 8), groups=8), (_LATENT,), _LATENTS, "image", dynamic=("H", "W"),
        large=dict(channels=(512, 512, 256, 128), groups=32, H=64, W=64),
    ),
    Network(
        "dit", "own.DiT", dict(hidden=32, heads=4, layers=2, patch=2), (_LATENT, Input("timestep", "unit", (1,))),
        _LATENTS, "noise",
    ),
    Network(
        "unet-3d", "own.UNet3d", dict(channels=(8, 16, 24), labels=3), (Input("volume", "signal", (1, 1, "D", "H", "W")),),
        ({"D": 8, "H": 16, "W": 24}, {"D": 16, "H": 24, "W": 32}), "logits", dynamic=("D", "H", "W"),
        large=dict(channels=(32, 64, 128, 256), D=64, H=96, W=112),
    ),
)  # fmt: skip
