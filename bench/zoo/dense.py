# SPDX-License-Identifier: Apache-2.0
"""Segmentation, Segment Anything, depth and detection: an answer for each pixel or box."""

from bench.zoo.network import Input, Network, picture, pictures, square, squares

_VIT = dict(hidden_size=32, num_attention_heads=4, intermediate_size=64, patch_size=16)
_RESNET = dict(
    model_type="resnet", embedding_size=8, hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1], layer_type="basic",
    out_features=["stage2", "stage3", "stage4"],
)  # fmt: skip
_LAST = {**_RESNET, "out_features": ["stage4"]}
_STAGES = ["stage1", "stage2", "stage3", "stage4"]
_SWIN = dict(
    model_type="swin", embed_dim=12, depths=[1, 1, 2, 1], num_heads=[1, 2, 3, 4], window_size=4, out_features=_STAGES,
)  # fmt: skip
_SWIN_T = {
    **_SWIN,
    "image_size": 512,
    "embed_dim": 96,
    "depths": [2, 2, 6, 2],
    "num_heads": [3, 6, 12, 24],
    "window_size": 7,
}
_CONVNEXT = dict(model_type="convnext", hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1], out_features=_STAGES)
# The exporters need pool sizes that divide the last stage.
_UPERNET = dict(hidden_size=32, num_labels=7, use_auxiliary_head=False, pool_scales=[1, 2, 4])
_SEGFORMER = dict(
    depths=[1, 1, 1, 1], hidden_sizes=[16, 32, 48, 64], num_attention_heads=[1, 2, 3, 4], decoder_hidden_size=32,
    num_labels=7,
)  # fmt: skip
_DPT = dict(
    num_hidden_layers=4, backbone_out_indices=[0, 1, 2, 3], neck_hidden_sizes=[16, 32, 48, 64], fusion_hidden_size=16,
    **_VIT,
)  # fmt: skip
_DETR = dict(
    use_timm_backbone=False, backbone=None, use_pretrained_backbone=False, d_model=32, encoder_layers=2,
    decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=64, decoder_ffn_dim=48,
    num_queries=7, num_labels=5,
)  # fmt: skip
_SAM_VISION = dict(
    hidden_size=32, output_channels=16, num_hidden_layers=2, num_attention_heads=4, patch_size=8, window_size=7,
    global_attn_indexes=[1], mlp_dim=64,
)  # fmt: skip
_SAM_HEADS = dict(hidden_size=16, num_hidden_layers=2, mlp_dim=32, num_attention_heads=2, iou_head_hidden_dim=16)
_SAM2_VISION = dict(
    backbone_config=dict(
        model_type="sam2_hiera_det_model", hidden_size=16, num_attention_heads=1, blocks_per_stage=[1, 2, 2, 1],
        embed_dim_per_stage=[16, 32, 64, 128], num_attention_heads_per_stage=[1, 2, 4, 8],
        window_size_per_stage=[8, 4, 8, 4], global_attention_blocks=[4],
    ),
    backbone_channel_list=[128, 64, 32, 16], fpn_hidden_size=32,
)  # fmt: skip
_POINTS = Input("input_points", "unit", (1, 1, "N", 2))
_BOXES = "logits pred_boxes"
_OPEN = dict(dynamic=("H", "W"))

NETWORKS = (
    Network(
        "segformer", "SegformerForSemanticSegmentation", _SEGFORMER, picture(), pictures(), "logits", **_OPEN,
        large=dict(depths=[3, 6, 40, 3], hidden_sizes=[64, 128, 320, 512], num_attention_heads=[1, 2, 5, 8], decoder_hidden_size=768, num_labels=150, H=512, W=512),
    ),
    Network(
        "upernet-swin", "UperNetForSemanticSegmentation", {**_UPERNET, "backbone_config": _SWIN}, picture(),
        pictures((128, 128), (128, 256)), "logits",
        large=dict(backbone_config=_SWIN_T, hidden_size=512, num_labels=150, pool_scales=[1, 2, 4, 8], H=512, W=512),
    ),
    Network(
        "upernet-convnext", "UperNetForSemanticSegmentation", {**_UPERNET, "backbone_config": _CONVNEXT}, picture(),
        pictures((128, 128), (128, 256)), "logits",
    ),
    Network(
        "dpt-segmentation", "DPTForSemanticSegmentation", {**_DPT, "num_labels": 5}, square(), squares(), "logits", spread=True,
        large=dict(
            image_size=384, hidden_size=768, num_hidden_layers=12, num_attention_heads=12, intermediate_size=3072,
            neck_hidden_sizes=[96, 192, 384, 768], fusion_hidden_size=256, num_labels=150, backbone_out_indices=[2, 5, 8, 11],
        ),
    ),
    Network("beit-segmentation", "BeitForSemanticSegmentation", dict(num_hidden_layers=4, num_labels=5, out_indices=[1, 2, 3, 4], pool_scales=[1, 2], use_auxiliary_head=False, **_VIT), square(), squares(64, 128), "logits"),
    Network("mobilevit-deeplab", "MobileViTForSemanticSegmentation", dict(hidden_sizes=[16, 24, 32], neck_hidden_sizes=[8, 16, 24, 32, 40, 48, 64], aspp_out_channels=16, num_labels=5), square(), squares(), "logits", spread=True),
    Network("mobilenet-v2-deeplab", "MobileNetV2ForSemanticSegmentation", dict(depth_multiplier=0.25, num_labels=5), picture(), pictures(), "logits"),
    Network(
        "maskformer", "MaskFormerForInstanceSegmentation",
        dict(
            backbone_config=_SWIN, fpn_feature_size=32, mask_feature_size=32, num_labels=5,
            decoder_config=dict(
                model_type="detr", d_model=32, decoder_layers=2, decoder_attention_heads=4, decoder_ffn_dim=48,
                encoder_layers=2, encoder_attention_heads=4, encoder_ffn_dim=48, num_queries=6,
            ),
        ),
        picture(), pictures((64, 64), (64, 128)), "class_queries_logits masks_queries_logits",
    ),
    Network(
        "mask2former", "Mask2FormerForUniversalSegmentation",
        dict(
            backbone_config=_SWIN, feature_size=32, mask_feature_size=32, hidden_dim=32, encoder_feedforward_dim=48,
            encoder_layers=2, decoder_layers=3, num_attention_heads=4, dim_feedforward=48, num_queries=6, num_labels=5,
        ),
        picture(), pictures((64, 64), (64, 128)), "class_queries_logits masks_queries_logits",
    ),
    Network(
        "sam-encoder", "SamVisionModel", _SAM_VISION, square(), squares(112, 168), spread=True,
        large=dict(hidden_size=768, output_channels=256, num_hidden_layers=12, num_attention_heads=12, patch_size=16, window_size=14, global_attn_indexes=[2, 5, 8, 11], mlp_dim=3072, image_size=1024),
    ),
    Network("sam-decoder", "own.SamDecoder", dict(heads=_SAM_HEADS, vision={**_SAM_VISION, "image_size": 112}), (Input("image_embeddings", "signal", (1, 16, 14, 14)), _POINTS, Input("input_labels", "mask", (1, 1, "N"))), ({"N": 2}, {"N": 5}), "iou_scores pred_masks"),
    Network("sam2-encoder", "Sam2VisionModel", _SAM2_VISION, picture(), pictures((128, 128), (128, 192)), "last_hidden_state"),
    Network("sam2-decoder", "own.Sam2Decoder", dict(heads=_SAM_HEADS, size=128), (Input("features_4", "signal", (1, 2, 32, 32)), Input("features_8", "signal", (1, 4, 16, 16)), Input("features_16", "signal", (1, 16, 8, 8)), _POINTS, Input("input_labels", "mask", (1, 1, "N"))), ({"N": 2}, {"N": 5}), "iou_scores pred_masks"),
    Network("dpt-depth", "DPTForDepthEstimation", _DPT, square(), squares(), "predicted_depth", spread=True),
    Network("glpn", "GLPNForDepthEstimation", dict(hidden_sizes=[16, 32, 48, 64], depths=[1, 1, 1, 1], num_attention_heads=[1, 2, 3, 4], decoder_hidden_size=16), picture(), pictures(), "predicted_depth", **_OPEN),
    Network(
        "depth-anything", "DepthAnythingForDepthEstimation",
        dict(
            backbone_config=dict(model_type="dinov2", hidden_size=32, num_hidden_layers=4, num_attention_heads=4, image_size=56, patch_size=14, out_features=_STAGES, reshape_hidden_states=False, apply_layernorm=True),
            patch_size=14, reassemble_hidden_size=32, neck_hidden_sizes=[16, 24, 32, 48], fusion_hidden_size=16, head_hidden_size=8,
        ),
        picture(), pictures((56, 56), (84, 112)), "predicted_depth",
    ),
    Network(
        "detr", "DetrForObjectDetection", {**_DETR, "backbone_config": _LAST}, (*picture(), Input("pixel_mask", "mask", (1, "H", "W"))), pictures(), _BOXES,
        large=dict(
            backbone_config=dict(model_type="resnet", out_features=["stage4"]), d_model=256, encoder_layers=6, decoder_layers=6, encoder_attention_heads=8,
            decoder_attention_heads=8, encoder_ffn_dim=2048, decoder_ffn_dim=2048, num_queries=100, num_labels=91, H=320, W=416,
        ),
    ),
    Network("table-transformer", "TableTransformerForObjectDetection", {**_DETR, "backbone_config": _LAST}, (*picture(), Input("pixel_mask", "mask", (1, "H", "W"))), pictures(), _BOXES),
    Network("conditional-detr", "ConditionalDetrForObjectDetection", {**_DETR, "backbone_config": _LAST}, (*picture(), Input("pixel_mask", "mask", (1, "H", "W"))), pictures(), _BOXES),
    Network("deformable-detr", "DeformableDetrForObjectDetection", {**_DETR, "backbone_config": _RESNET}, (*picture(), Input("pixel_mask", "mask", (1, "H", "W"))), pictures(), _BOXES),
    Network("yolos", "YolosForObjectDetection", dict(num_hidden_layers=2, num_detection_tokens=5, image_size=[64, 96], num_labels=5, **_VIT), picture(), pictures(), _BOXES, spread=True),
    Network(
        "rt-detr", "RTDetrForObjectDetection",
        dict(
            backbone_config=dict(model_type="rt_detr_resnet", embedding_size=8, hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1], layer_type="basic", out_features=["stage2", "stage3", "stage4"]),
            encoder_in_channels=[16, 24, 32], encoder_hidden_dim=32, encoder_ffn_dim=48, encoder_attention_heads=4, d_model=32, decoder_in_channels=[32, 32, 32],
            decoder_ffn_dim=48, decoder_attention_heads=4, decoder_layers=2, num_queries=9, num_labels=5, num_denoising=0, hidden_expansion=0.5, anchor_image_size=None,
        ),
        picture(), pictures(), _BOXES, spread=True,
    ),
)  # fmt: skip
