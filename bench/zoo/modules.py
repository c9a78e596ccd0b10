# SPDX-License-Identifier: Apache-2.0
"""Networks written here: those that transformers does not have, and parts of its models that cannot be called alone."""

import math

import torch
import transformers
from torch import nn
from torch.nn import functional


def _answer(**fields):
    return dict(fields)


class SamDecoder(nn.Module):
    """Segment Anything without its image encoder: points to masks."""

    def __init__(self, heads, vision):
        super().__init__()
        width = vision["output_channels"]
        side = vision["image_size"] // vision["patch_size"]
        prompt = dict(
            hidden_size=width, image_size=vision["image_size"], patch_size=vision["patch_size"], mask_input_channels=8
        )
        config = transformers.SamConfig(
            vision_config={**vision, "num_pos_feats": width // 2},
            prompt_encoder_config={**prompt, "image_embedding_size": side},
            mask_decoder_config={**heads, "hidden_size": width, "iou_head_depth": 2},
        )
        self.model = transformers.SamModel(config)

    def forward(self, image_embeddings, input_points, input_labels):
        out = self.model(image_embeddings=image_embeddings, input_points=input_points, input_labels=input_labels)
        return _answer(iou_scores=out.iou_scores, pred_masks=out.pred_masks)


class Sam2Decoder(nn.Module):
    """Segment Anything 2 without its image encoder, given the encoder's features of three strides."""

    def __init__(self, heads, size):
        super().__init__()
        width = heads["hidden_size"]
        config = transformers.Sam2Config(
            vision_config=dict(fpn_hidden_size=width, backbone_feature_sizes=[[size // s] * 2 for s in (4, 8, 16)]),
            prompt_encoder_config=dict(hidden_size=width, image_size=size, mask_input_channels=8),
            mask_decoder_config={**heads, "iou_head_depth": 2},
        )
        with torch.device("meta"):  # its image encoder is not wanted
            model = transformers.Sam2Model(config)
        del model.vision_encoder
        self.model = model.to_empty(device="cpu")
        for value in self.model.state_dict().values():
            value.normal_(0, 0.1)

    def forward(self, features_4, features_8, features_16, input_points, input_labels):
        out = self.model(
            image_embeddings=[features_4, features_8, features_16], input_points=input_points, input_labels=input_labels
        )
        return _answer(iou_scores=out.iou_scores, pred_masks=out.pred_masks)


class EncodecEncoder(nn.Module):
    def __init__(self, **config):
        super().__init__()
        self.model = transformers.EncodecModel(transformers.EncodecConfig(**config)).encoder

    def forward(self, waveform):
        return _answer(embeddings=self.model(waveform))


class EncodecDecoder(nn.Module):
    def __init__(self, **config):
        super().__init__()
        self.model = transformers.EncodecModel(transformers.EncodecConfig(**config)).decoder

    def forward(self, embeddings):
        return _answer(waveform=self.model(embeddings))


class HifiGan(nn.Module):
    """Transposed convolutions, each followed by the mean of dilated residual blocks: the vocoder of HiFi-GAN and VITS."""

    def __init__(self, channels, first, rates, kernels, dilations):
        super().__init__()
        self.begin = nn.Conv1d(channels, first, 7, padding=3)
        self.ups, self.blocks = nn.ModuleList(), nn.ModuleList()
        for rate in rates:
            self.ups.append(nn.ConvTranspose1d(first, first // 2, 2 * rate, rate, padding=rate // 2))
            first //= 2
            self.blocks.append(
                nn.ModuleList(
                    nn.ModuleList(nn.Conv1d(first, first, k, padding=d * (k - 1) // 2, dilation=d) for d in dilations)
                    for k in kernels
                )
            )
        self.end = nn.Conv1d(first, 1, 7, padding=3)

    def forward(self, spectrogram):
        x = self.begin(spectrogram)
        for up, blocks in zip(self.ups, self.blocks):
            x = up(functional.leaky_relu(x, 0.1))
            total = 0
            for convolutions in blocks:
                y = x
                for convolution in convolutions:
                    y = y + convolution(functional.leaky_relu(y, 0.1))
                total = total + y
            x = total / len(blocks)
        return _answer(waveform=torch.tanh(self.end(functional.leaky_relu(x))))


class _Residual(nn.Module):
    def __init__(self, inputs, outputs, groups, time=0):
        super().__init__()
        self.first = nn.Sequential(nn.GroupNorm(groups, inputs), nn.SiLU(), nn.Conv2d(inputs, outputs, 3, padding=1))
        self.time = nn.Linear(time, outputs) if time else None
        self.second = nn.Sequential(nn.GroupNorm(groups, outputs), nn.SiLU(), nn.Conv2d(outputs, outputs, 3, padding=1))
        self.skip = nn.Identity() if inputs == outputs else nn.Conv2d(inputs, outputs, 1)

    def forward(self, x, time=None):
        y = self.first(x)
        if self.time is not None:
            y = y + self.time(time)[:, :, None, None]
        return self.skip(x) + self.second(y)


class _Attention(nn.Module):
    """Of the pixels to each other and to a text, as a block of Stable Diffusion's U-Net."""

    def __init__(self, channels, groups, heads, context=0):
        super().__init__()
        self.heads, self.norm = heads, nn.GroupNorm(groups, channels)
        self.norms = nn.ModuleList(nn.LayerNorm(channels) for _ in range(2))
        self.query = nn.ModuleList(nn.Linear(channels, channels, bias=False) for _ in range(2))
        self.key = nn.ModuleList(nn.Linear(width, channels, bias=False) for width in (channels, context or channels))
        self.value = nn.ModuleList(nn.Linear(width, channels, bias=False) for width in (channels, context or channels))
        self.out = nn.ModuleList(nn.Linear(channels, channels) for _ in range(2))

    def split(self, x):
        return x.reshape(x.shape[0], x.shape[1], self.heads, -1).transpose(1, 2)

    def forward(self, x, context=None):
        batch, channels, height, width = x.shape
        y = self.norm(x).reshape(batch, channels, height * width).transpose(1, 2)
        for i, other in enumerate([None] if context is None else [None, context]):
            normed = self.norms[i](y)
            source = normed if other is None else other
            q, k, v = (
                self.split(self.query[i](normed)),
                self.split(self.key[i](source)),
                self.split(self.value[i](source)),
            )
            a = (
                functional.scaled_dot_product_attention(q, k, v)
                .transpose(1, 2)
                .reshape(batch, height * width, channels)
            )
            y = y + self.out[i](a)
        return x + y.transpose(1, 2).reshape(batch, channels, height, width)


def _angles(timestep, width):
    frequencies = torch.exp(-math.log(10000.0) * torch.arange(width // 2) / (width // 2))
    angles = timestep[:, None] * 1000.0 * frequencies[None]
    return torch.cat([torch.cos(angles), torch.sin(angles)], -1)


class DiffusionUNet(nn.Module):
    """Residual blocks with the time, attention to a text, and connections across, as Stable Diffusion's."""

    def __init__(self, channels, groups, heads, context):
        super().__init__()
        self.width = channels[0]
        time = 4 * channels[0]
        self.time = nn.Sequential(nn.Linear(channels[0], time), nn.SiLU(), nn.Linear(time, time), nn.SiLU())
        self.begin = nn.Conv2d(4, channels[0], 3, padding=1)
        self.down, self.up = nn.ModuleList(), nn.ModuleList()
        previous = channels[0]
        for i, count in enumerate(channels):
            last = i + 1 == len(channels)
            down = nn.Identity() if last else nn.Conv2d(count, count, 3, 2, 1)
            self.down.append(
                nn.ModuleList(
                    [_Residual(previous, count, groups, time), _Attention(count, groups, heads, context), down]
                )
            )
            previous = count
        self.middle = _Residual(previous, previous, groups, time)
        for i, count in reversed(list(enumerate(channels))):
            up = nn.Conv2d(count, count, 3, padding=1) if i else nn.Identity()
            self.up.append(
                nn.ModuleList(
                    [_Residual(previous + count, count, groups, time), _Attention(count, groups, heads, context), up]
                )
            )
            previous = count
        self.end = nn.Sequential(nn.GroupNorm(groups, previous), nn.SiLU(), nn.Conv2d(previous, 4, 3, padding=1))

    def forward(self, latent, timestep, context):
        time, x, kept = self.time(_angles(timestep, self.width)), self.begin(latent), []
        for residual, attention, down in self.down:
            x = attention(residual(x, time), context)
            kept.append(x)
            x = down(x)
        x = self.middle(x, time)
        for i, (residual, attention, up) in enumerate(self.up):
            x = attention(residual(torch.cat([x, kept.pop()], 1), time), context)
            if i + 1 < len(self.up):
                x = up(functional.interpolate(x, scale_factor=2.0, mode="nearest"))
        return _answer(noise=self.end(x))


class VaeDecoder(nn.Module):
    """A latent to an image: one attention in the middle, then residual blocks and resizes, as Stable Diffusion's."""

    def __init__(self, channels, groups):
        super().__init__()
        self.begin = nn.Conv2d(4, channels[0], 3, padding=1)
        self.middle = nn.ModuleList(
            [_Residual(channels[0], channels[0], groups), _Residual(channels[0], channels[0], groups)]
        )
        self.attention = _Attention(channels[0], groups, 1)
        self.up = nn.ModuleList()
        for inputs, outputs in zip(channels, channels[1:]):
            self.up.append(
                nn.ModuleList([_Residual(inputs, outputs, groups), nn.Conv2d(outputs, outputs, 3, padding=1)])
            )
        self.end = nn.Sequential(
            nn.GroupNorm(groups, channels[-1]), nn.SiLU(), nn.Conv2d(channels[-1], 3, 3, padding=1)
        )

    def forward(self, latent):
        x = self.middle[1](self.attention(self.middle[0](self.begin(latent))))
        for residual, up in self.up:
            x = up(functional.interpolate(residual(x), scale_factor=2.0, mode="nearest"))
        return _answer(image=self.end(x))


class DiT(nn.Module):
    """A transformer of patches whose norms are shifted and scaled by the time."""

    def __init__(self, hidden, heads, layers, patch):
        super().__init__()
        self.hidden, self.patch = hidden, patch
        self.begin = nn.Conv2d(4, hidden, patch, patch)
        self.time = nn.Sequential(nn.Linear(hidden, hidden), nn.SiLU())
        self.scales = nn.ModuleList(nn.Linear(hidden, 6 * hidden) for _ in range(layers))
        self.attention = nn.ModuleList(nn.MultiheadAttention(hidden, heads, batch_first=True) for _ in range(layers))
        self.mlp = nn.ModuleList(
            nn.Sequential(nn.Linear(hidden, 64), nn.GELU("tanh"), nn.Linear(64, hidden)) for _ in range(layers)
        )
        self.end = nn.Linear(hidden, patch * patch * 4)

    def forward(self, latent, timestep):
        time = self.time(_angles(timestep, self.hidden))
        x = self.begin(latent)
        height, width = x.shape[2:]
        x = x.flatten(2).transpose(1, 2)
        x = x + _angles(torch.arange(height * width) / 1000.0, self.hidden)[None]
        for scales, attention, mlp in zip(self.scales, self.attention, self.mlp):
            a, b, c, d, e, f = scales(time)[:, None].chunk(6, -1)
            y = functional.layer_norm(x, (self.hidden,)) * (1 + a) + b
            x = x + c * attention(y, y, y, need_weights=False)[0]
            x = x + f * mlp(functional.layer_norm(x, (self.hidden,)) * (1 + d) + e)
        x = self.end(x).reshape(-1, height, width, self.patch, self.patch, 4)
        x = torch.einsum("nhwpqc->nchpwq", x)
        return _answer(noise=x.reshape(-1, 4, height * self.patch, width * self.patch))


class UNet3d(nn.Module):
    """Convolutions of volumes with instance norm, strides down, transposed up, in the form of nnU-Net's."""

    def __init__(self, channels, labels):
        super().__init__()
        self.down, self.up, self.join = nn.ModuleList(), nn.ModuleList(), nn.ModuleList()
        for i, (inputs, outputs) in enumerate(zip((1, *channels), channels)):
            self.down.append(self.block(inputs, outputs, 1 if i == 0 else 2))
        for inputs, outputs in zip(reversed(channels), list(reversed(channels))[1:]):
            self.up.append(nn.ConvTranspose3d(inputs, outputs, 2, 2))
            self.join.append(self.block(2 * outputs, outputs, 1))
        self.end = nn.Conv3d(channels[0], labels, 1)

    @staticmethod
    def block(inputs, outputs, stride):
        first = nn.Conv3d(inputs, outputs, 3, stride, 1)
        return nn.Sequential(
            first,
            nn.InstanceNorm3d(outputs, affine=True),
            nn.LeakyReLU(0.01),
            nn.Conv3d(outputs, outputs, 3, 1, 1),
            nn.LeakyReLU(0.01),
        )

    def forward(self, volume):
        x, kept = volume, []
        for block in self.down:
            x = block(x)
            kept.append(x)
        kept.pop()
        for up, join in zip(self.up, self.join):
            x = join(torch.cat([up(x), kept.pop()], 1))
        return _answer(logits=self.end(x))
