#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Exports transformers with random weights to ONNX: what the graph-quality figures are measured on. No downloads.

    bench/export_transformers.py FOLDER [NAME ...]      needs torch==2.13.0, transformers and onnx

Names: segformer-b5, swin-upernet, vit-dpt, sam-vit, detr, whisper-encoder, decoder.
"""

import pathlib
import sys
import warnings

import torch
import transformers as tf

warnings.filterwarnings("ignore")


class Only(torch.nn.Module):
    """The first tensor of a model's output, so that the exported graph has one output."""

    def __init__(self, model, pick):
        super().__init__()
        self.model, self.pick = model, pick

    def forward(self, *inputs):
        return self.pick(self.model(*inputs))


def segformer_b5():
    config = tf.SegformerConfig(
        depths=[3, 6, 40, 3], hidden_sizes=[64, 128, 320, 512], decoder_hidden_size=768, num_labels=150, image_size=512
    )
    return Only(tf.SegformerForSemanticSegmentation(config), lambda o: o.logits), [torch.randn(1, 3, 512, 512)]


def swin_upernet():
    backbone = tf.SwinConfig(
        image_size=512,
        embed_dim=96,
        depths=[2, 2, 6, 2],
        num_heads=[3, 6, 12, 24],
        window_size=7,
        out_features=["stage1", "stage2", "stage3", "stage4"],
    )
    # The exporter needs pool sizes that divide the last stage's 16 x 16.
    config = tf.UperNetConfig(
        backbone_config=backbone,
        num_labels=150,
        use_auxiliary_head=False,
        auxiliary_in_channels=384,
        pool_scales=[1, 2, 4, 8],
    )
    return Only(tf.UperNetForSemanticSegmentation(config), lambda o: o.logits), [torch.randn(1, 3, 512, 512)]


def vit_dpt():
    config = tf.DPTConfig(image_size=384, num_labels=150, backbone_out_indices=[2, 5, 8, 11])
    return Only(tf.DPTForSemanticSegmentation(config), lambda o: o.logits), [torch.randn(1, 3, 384, 384)]


def sam_vit():
    config = tf.SamVisionConfig(num_hidden_layers=12)
    model = tf.models.sam.modeling_sam.SamVisionEncoder(config)
    return Only(model, lambda o: o.last_hidden_state), [torch.randn(1, 3, 1024, 1024)]


def detr():
    backbone = tf.ResNetConfig(out_features=["stage4"])
    config = tf.DetrConfig(
        use_timm_backbone=False, backbone=None, backbone_config=backbone, use_pretrained_backbone=False
    )
    model = tf.DetrForObjectDetection(config)
    mask = torch.ones(1, 320, 416, dtype=torch.long)

    class Detect(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, pixels):
            out = self.model(pixels, mask)
            return out.logits, out.pred_boxes

    return Detect(), [torch.randn(1, 3, 320, 416)]


def whisper_encoder():
    model = tf.WhisperModel(
        tf.WhisperConfig(encoder_layers=4, d_model=384, encoder_attention_heads=6, encoder_ffn_dim=1536)
    ).encoder
    return Only(model, lambda o: o.last_hidden_state), [torch.randn(1, 80, 3000)]


def decoder():
    config = tf.GPT2Config(n_layer=4, n_head=6, n_embd=384, vocab_size=5000, use_cache=False)
    model = tf.GPT2LMHeadModel(config)
    mask = torch.ones(1, 37, dtype=torch.long)  # given, so that no packed sequences are looked for at run time

    class Decode(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, tokens):
            return self.model(tokens, attention_mask=mask).logits

    return Decode(), [torch.randint(0, 5000, (1, 37))]


MODELS = {
    "segformer-b5": segformer_b5,
    "swin-upernet": swin_upernet,
    "vit-dpt": vit_dpt,
    "sam-vit": sam_vit,
    "detr": detr,
    "whisper-encoder": whisper_encoder,
    "decoder": decoder,
}


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[2:] or MODELS:
        torch.manual_seed(17)
        try:
            model, inputs = MODELS[name]()
            model.eval()
            for module in model.modules():  # eager attention: the graph that exporters have written for years
                if hasattr(module, "config"):
                    module.config._attn_implementation = "eager"
            path = folder / f"{name}.onnx"
            with torch.no_grad():
                torch.onnx.export(
                    model, tuple(inputs), str(path), dynamo=False, opset_version=17, do_constant_folding=True
                )
            print(f"{name}: {path.stat().st_size / 1e6:.1f} MB", flush=True)
        except Exception as error:  # one model that cannot be exported does not keep the others from it
            print(f"{name}: not exported: {type(error).__name__}: {str(error)[:300]}", flush=True)


if __name__ == "__main__":
    main()
