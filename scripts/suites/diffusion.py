"""The networks of Stable Diffusion, from their published configurations."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional


class Residual(nn.Module):
    """GroupNorm, SiLU and a 3x3 convolution, twice; the time embedding (if any) in between."""

    def __init__(self, channels: int, width: int, time: int = 0):
        super().__init__()
        self.norm1 = nn.GroupNorm(32, channels)
        self.conv1 = nn.Conv2d(channels, width, 3, padding=1)
        self.time = nn.Linear(time, width) if time else None
        self.norm2 = nn.GroupNorm(32, width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1)
        self.shortcut = nn.Conv2d(channels, width, 1) if channels != width else nn.Identity()

    def forward(self, x: Tensor, time: Tensor | None = None) -> Tensor:
        hidden = self.conv1(functional.silu(self.norm1(x)))
        if self.time is not None and time is not None:
            hidden = hidden + self.time(functional.silu(time))[:, :, None, None]
        return self.shortcut(x) + self.conv2(functional.silu(self.norm2(hidden)))


class CrossAttention(nn.Module):
    def __init__(self, width: int, context: int):
        super().__init__()
        self.to_q = nn.Linear(width, width, bias=False)
        self.to_k = nn.Linear(context, width, bias=False)
        self.to_v = nn.Linear(context, width, bias=False)
        self.to_out = nn.Linear(width, width)

    def forward(self, x: Tensor, context: Tensor) -> Tensor:
        q, k, v = self.to_q(x), self.to_k(context), self.to_v(context)
        return self.to_out(functional.scaled_dot_product_attention(q, k, v))


class TransformerBlock(nn.Module):
    """Self-attention, cross-attention with the text, and a gated feed-forward layer."""

    def __init__(self, width: int, context: int):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.attn1 = CrossAttention(width, width)
        self.attn2 = CrossAttention(width, context)
        self.ff_in = nn.Linear(width, 8 * width)
        self.ff_out = nn.Linear(4 * width, width)

    def forward(self, x: Tensor, context: Tensor) -> Tensor:
        hidden = self.norms[0](x)
        x = x + self.attn1(hidden, hidden)
        x = x + self.attn2(self.norms[1](x), context)
        value, gate = self.ff_in(self.norms[2](x)).chunk(2, -1)
        return x + self.ff_out(value * functional.gelu(gate))


class Transformer(nn.Module):
    """Transformer blocks between two projections: 1x1 convolutions, or linear ones in SDXL."""

    def __init__(self, width: int, depth: int, context: int, linear: bool):
        super().__init__()
        self.norm = nn.GroupNorm(32, width)
        self.linear = linear
        self.proj_in = nn.Linear(width, width) if linear else nn.Conv2d(width, width, 1)
        self.blocks = nn.ModuleList(TransformerBlock(width, context) for _ in range(depth))
        self.proj_out = nn.Linear(width, width) if linear else nn.Conv2d(width, width, 1)

    def forward(self, x: Tensor, context: Tensor) -> Tensor:
        hidden = self.norm(x)
        if not self.linear:
            hidden = self.proj_in(hidden)
        tokens = hidden.flatten(2).transpose(1, 2)
        if self.linear:
            tokens = self.proj_in(tokens)
        for block in self.blocks:
            tokens = block(tokens, context)
        if self.linear:
            return x + self.proj_out(tokens).transpose(1, 2).reshape(x.shape)
        return x + self.proj_out(tokens.transpose(1, 2).reshape(x.shape))


class UNet(nn.Module):
    """Two residual blocks a level, three on the way up; transformers where `depths` says."""

    def __init__(
        self,
        widths: Sequence[int],
        depths: Sequence[int],
        *,
        middle: int,
        context: int,
        linear: bool,
        labels: int = 0,
    ):
        super().__init__()
        first, time = widths[0], 4 * widths[0]
        self.time = nn.Sequential(nn.Linear(first, time), nn.SiLU(), nn.Linear(time, time))
        self.label = (
            nn.Sequential(nn.Linear(labels, time), nn.SiLU(), nn.Linear(time, time))
            if labels
            else None
        )
        self.conv_in = nn.Conv2d(4, first, 3, padding=1)

        def stage(channels: int, width: int, depth: int) -> nn.ModuleList:
            layers: list[nn.Module] = [Residual(channels, width, time)]
            if depth:
                layers.append(Transformer(width, depth, context, linear))
            return nn.ModuleList(layers)

        self.down, self.up = nn.ModuleList(), nn.ModuleList()
        channels, skips = first, [first]
        for level, (width, depth) in enumerate(zip(widths, depths, strict=True)):
            for _ in range(2):
                self.down.append(stage(channels, width, depth))
                channels = width
                skips.append(width)
            if level < len(widths) - 1:
                self.down.append(nn.ModuleList([nn.Conv2d(width, width, 3, 2, 1)]))
                skips.append(width)
        self.middle = nn.ModuleList(
            [
                Residual(channels, channels, time),
                Transformer(channels, middle, context, linear),
                Residual(channels, channels, time),
            ]
        )
        for level, (width, depth) in reversed(list(enumerate(zip(widths, depths, strict=True)))):
            for block in range(3):
                layers = stage(channels + skips.pop(), width, depth)
                channels = width
                if level and block == 2:
                    layers.append(nn.Upsample(scale_factor=2))
                    layers.append(nn.Conv2d(width, width, 3, padding=1))
                self.up.append(layers)
        self.norm_out = nn.GroupNorm(32, channels)
        self.conv_out = nn.Conv2d(channels, 4, 3, padding=1)
        self.sizes = first, labels, context

    def forward(self, x: Tensor) -> Tensor:
        first, labels, width = self.sizes
        time = self.time(torch.randn(x.shape[0], first))
        if self.label is not None:
            time = time + self.label(torch.randn(x.shape[0], labels))
        context = torch.randn(x.shape[0], 77, width)
        x = self.conv_in(x)
        skips = [x]
        for stage in self.down:
            x = _run(stage, x, time, context)
            skips.append(x)
        x = _run(self.middle, x, time, context)
        for stage in self.up:
            x = _run(stage, torch.cat([x, skips.pop()], 1), time, context)
        return self.conv_out(functional.silu(self.norm_out(x)))


def _run(stage: nn.ModuleList, x: Tensor, time: Tensor, context: Tensor) -> Tensor:
    for layer in stage:
        if isinstance(layer, Residual):
            x = layer(x, time)
        elif isinstance(layer, Transformer):
            x = layer(x, context)
        else:
            x = layer(x)
    return x


def sd15_unet() -> nn.Module:
    return UNet((320, 640, 1280, 1280), (1, 1, 1, 0), middle=1, context=768, linear=False)


def sdxl_unet() -> nn.Module:
    return UNet((320, 640, 1280), (0, 2, 10), middle=10, context=2048, linear=True, labels=2816)


class Attention(nn.Module):
    """The VAE's attention of one head, its projections as 1x1 convolutions."""

    def __init__(self, width: int):
        super().__init__()
        self.norm = nn.GroupNorm(32, width)
        self.q, self.k, self.v = (nn.Conv2d(width, width, 1) for _ in range(3))
        self.proj_out = nn.Conv2d(width, width, 1)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.norm(x)
        tokens = [m(hidden).flatten(2).transpose(1, 2) for m in (self.q, self.k, self.v)]
        out = functional.scaled_dot_product_attention(*tokens)
        return x + self.proj_out(out.transpose(1, 2).reshape(x.shape))


def vae_decoder() -> nn.Module:
    """Rombach et al. 2021; the decoder of kl-f8: 128 channels x (1, 2, 4, 4), three blocks each."""
    layers: list[nn.Module] = [
        nn.Conv2d(4, 4, 1),  # post_quant_conv
        nn.Conv2d(4, 512, 3, padding=1),
        Residual(512, 512),
        Attention(512),
        Residual(512, 512),
    ]
    channels = 512
    for level, width in enumerate((512, 512, 256, 128)):
        for _ in range(3):
            layers.append(Residual(channels, width))
            channels = width
        if level < 3:
            layers += [nn.Upsample(scale_factor=2), nn.Conv2d(width, width, 3, padding=1)]
    layers += [nn.GroupNorm(32, channels), nn.SiLU(), nn.Conv2d(channels, 3, 3, padding=1)]
    return nn.Sequential(*layers)
