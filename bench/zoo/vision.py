# SPDX-License-Identifier: Apache-2.0
"""Backbones and classifiers of images and videos."""

from bench.zoo.network import VOCABULARY, Input, Network, lengths, mask, picture, pictures, square, squares, tokens

_VIT = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, patch_size=16)
_SWIN = dict(patch_size=4, embed_dim=24, depths=[2, 2], num_heads=[2, 4])
_STAGES = dict(hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 2, 1])
_TEXT = dict(
    vocab_size=VOCABULARY, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
    max_position_embeddings=32, pad_token_id=0, bos_token_id=1, eos_token_id=2,
)  # fmt: skip
_VIDEO = (Input("pixel_values", "signal", (1, "num_frames", 3, "image_size", "image_size")),)
_CLIPS = ({"num_frames": 4, "image_size": 32}, {"num_frames": 6, "image_size": 48})


def _square(name, model, config, small=64, second=96, **how):
    return Network(name, model, config, square(), squares(small, second), **how)


def _any(name, model, config, **how):
    """Networks that take images of any height and width."""
    return Network(name, model, config, picture(), pictures(), **how)


_OPEN = dict(dynamic=("H", "W"))

NETWORKS = (
    _square("vit", "ViTModel", _VIT),
    _square("deit", "DeiTModel", _VIT),
    _square("beit", "BeitModel", {**_VIT, "use_relative_position_bias": True}),
    _square("dinov2", "Dinov2Model", {**_VIT, "patch_size": 14}, 56, 98),
    _square("swin", "SwinModel", {**_SWIN, "window_size": 7}, 56, 64),
    _square("swinv2", "Swinv2Model", {**_SWIN, "window_size": 8}),
    _square("clip-vision", "CLIPVisionModel", _VIT),
    Network("clip-text", "CLIPTextModel", _TEXT, (tokens(), mask()), lengths(), "last_hidden_state pooler_output"),
    _square("siglip-vision", "SiglipVisionModel", _VIT, outputs="last_hidden_state pooler_output"),
    Network("siglip-text", "SiglipTextModel", _TEXT, (tokens(),), lengths(16, 23)),
    _any("convnext", "ConvNextModel", _STAGES, **_OPEN),
    _any("convnextv2", "ConvNextV2Model", _STAGES, **_OPEN),
    _any("mobilenet-v1", "MobileNetV1Model", dict(depth_multiplier=0.25, tf_padding=False), **_OPEN),
    _any("mobilenet-v2", "MobileNetV2Model", dict(depth_multiplier=0.25), outputs="last_hidden_state pooler_output"),
    _any("resnet", "ResNetForImageClassification", dict(embedding_size=8, layer_type="basic", num_labels=5, **_STAGES), outputs="logits", **_OPEN),
    _any("regnet", "RegNetModel", dict(embedding_size=8, groups_width=4, layer_type="y", **_STAGES), **_OPEN),
    _any("efficientnet", "EfficientNetModel", dict(width_coefficient=0.25, depth_coefficient=0.4, hidden_dim=320, image_size=64), spread=True),
    _any("poolformer", "PoolFormerModel", _STAGES, **_OPEN),
    _any("focalnet", "FocalNetModel", dict(embed_dim=16, depths=[1, 1], focal_levels=[2, 2], focal_windows=[3, 3], hidden_sizes=[16, 32]), **_OPEN),
    _square("mobilevit", "MobileViTModel", dict(hidden_sizes=[16, 24, 32], neck_hidden_sizes=[8, 16, 24, 32, 40, 48, 64])),
    _square("mobilevitv2", "MobileViTV2Model", dict(width_multiplier=0.25)),
    _square("pvt", "PvtModel", dict(hidden_sizes=[16, 32, 48, 64], depths=[1, 1, 1, 1], num_attention_heads=[1, 2, 3, 4])),
    _square("pvt-v2", "PvtV2Model", dict(hidden_sizes=[16, 32, 48, 64], depths=[1, 1, 1, 1], num_attention_heads=[1, 2, 3, 4])),
    _square("levit", "LevitModel", dict(hidden_sizes=[16, 24, 32], num_attention_heads=[2, 3, 4], depths=[1, 1, 1], key_dim=[8, 8, 8])),
    _square("cvt", "CvtModel", dict(embed_dim=[16, 32, 48], num_heads=[1, 2, 3], depth=[1, 2, 3])),
    _square("swin2sr", "Swin2SRForImageSuperResolution", dict(embed_dim=24, depths=[2], num_heads=[2], window_size=8, upscale=2), 32, 48, outputs="reconstruction"),
    Network("videomae", "VideoMAEModel", _VIT, _VIDEO, _CLIPS),
    Network("timesformer", "TimesformerModel", _VIT, _VIDEO, _CLIPS),
    Network(
        "vivit", "VivitModel", dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, tubelet_size=[2, 16, 16]),
        _VIDEO, _CLIPS,
    ),
)  # fmt: skip
