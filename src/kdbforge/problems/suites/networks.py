"""The networks, written as their published definitions: only what touches a convolution."""

from __future__ import annotations

from collections.abc import Sequence

from kdbforge.problems.suites.layers import Layer, Tape

__all__ = ["mobilenet_v2", "resnet18", "resnet50", "unet_sd", "vgg16"]


def _resnet_stem() -> Tape:
    tape = Tape(channels=3, size=224)
    tape.conv("conv1", 64, 7, stride=2)
    tape.pool(3, pad=1)
    return tape


def resnet18() -> list[Layer]:
    """He et al. 2015, table 1 (18-layer): two 3x3 convolutions a block."""
    tape = _resnet_stem()
    for stage, width in enumerate((64, 128, 256, 512), start=1):
        for block in range(2):
            with tape.scope(f"layer{stage}"), tape.scope(block):
                stride = 2 if stage > 1 and block == 0 else 1
                channels, size = tape.channels, tape.size
                tape.conv("conv1", width, 3, stride=stride)
                tape.conv("conv2", width, 3)
                if channels != width:
                    tape.side("downsample", channels, width, in_size=size, stride=stride)
    return tape.layers


def resnet50() -> list[Layer]:
    """He et al. 2015, table 1 (50-layer): bottlenecks of 1x1, 3x3, 1x1 with 4 x the channels.

    A stage's stride lies on the first block's 3x3, as in torchvision, NVIDIA's and MLPerf's
    ResNet-50 ("v1.5"); the paper's own model had it on the 1x1 before.
    """
    tape = _resnet_stem()
    for stage, (width, blocks) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3)), start=1):
        for block in range(blocks):
            with tape.scope(f"layer{stage}"), tape.scope(block):
                stride = 2 if stage > 1 and block == 0 else 1
                channels, size = tape.channels, tape.size
                tape.conv("conv1", width, 1)
                tape.conv("conv2", width, 3, stride=stride)
                tape.conv("conv3", 4 * width, 1)
                if block == 0:
                    tape.side("downsample", channels, 4 * width, in_size=size, stride=stride)
    return tape.layers


def vgg16() -> list[Layer]:
    """Simonyan and Zisserman 2014, table 1, configuration D."""
    tape = Tape(channels=3, size=224)
    for stage, (width, convs) in enumerate(
        ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)), start=1
    ):
        for conv in range(1, convs + 1):
            tape.conv(f"conv{stage}_{conv}", width, 3)
        tape.pool(2)
    return tape.layers


#: Expansion t, channels c, repeats n, stride of the first s.
_MOBILENET_ROWS = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)


def mobilenet_v2() -> list[Layer]:
    """Sandler et al. 2018, table 2: inverted residuals, width multiplier 1."""
    tape = Tape(channels=3, size=224)
    tape.conv("conv1", 32, 3, stride=2)
    for row, (expansion, width, repeats, first_stride) in enumerate(_MOBILENET_ROWS, start=1):
        for repeat in range(repeats):
            with tape.scope(f"bottleneck{row}"), tape.scope(repeat):
                hidden = expansion * tape.channels
                if expansion > 1:
                    tape.conv("expand", hidden, 1)
                stride = first_stride if repeat == 0 else 1
                tape.conv("depthwise", hidden, 3, stride=stride, groups=hidden)
                tape.conv("project", width, 1)
    tape.conv("conv2", 1280, 1)
    return tape.layers


_SD_WIDTHS = (320, 640, 1280, 1280)
_SD_ATTENTION = (True, True, True, False)  # by level


def unet_sd() -> list[Layer]:
    """Rombach et al. 2021; Stable Diffusion v1's U-Net on the 64x64x4 latent of a 512x512 image.

    As the configuration v1-inference.yaml has it: 320 channels times 1, 2, 4, 4, two residual
    blocks a level, attention at the first three levels (its projections are 1x1 convolutions).
    """
    tape = Tape(channels=4, size=64)
    tape.conv("conv_in", _SD_WIDTHS[0], 3)
    skips = _sd_down(tape)
    with tape.scope("middle"):
        _sd_residual(tape, 0, _SD_WIDTHS[-1])
        _sd_attention(tape, 0)
        _sd_residual(tape, 1, _SD_WIDTHS[-1])
    _sd_up(tape, skips)
    tape.conv("conv_out", 4, 3)
    return tape.layers


def _sd_down(tape: Tape) -> list[int]:
    """Return the channels of the tensors that the way up gets across, in order."""
    skips = [tape.channels]
    for level, width in enumerate(_SD_WIDTHS):
        with tape.scope(f"down{level}"):
            for block in range(2):
                _sd_residual(tape, block, width)
                if _SD_ATTENTION[level]:
                    _sd_attention(tape, block)
                skips.append(tape.channels)
            if level < len(_SD_WIDTHS) - 1:
                tape.conv("downsample", width, 3, stride=2)
                skips.append(tape.channels)
    return skips


def _sd_up(tape: Tape, skips: Sequence[int]) -> None:
    left = list(skips)
    for level in reversed(range(len(_SD_WIDTHS))):
        with tape.scope(f"up{level}"):
            for block in range(3):
                tape.channels += left.pop()  # concatenated
                _sd_residual(tape, block, _SD_WIDTHS[level])
                if _SD_ATTENTION[level]:
                    _sd_attention(tape, block)
            if level > 0:
                tape.upsample()
                tape.conv("upsample", _SD_WIDTHS[level], 3)


def _sd_residual(tape: Tape, block: int, width: int) -> None:
    channels = tape.channels
    with tape.scope(f"residual{block}"):
        tape.conv("conv1", width, 3)
        tape.conv("conv2", width, 3)
        if channels != width:
            tape.side("shortcut", channels, width, in_size=tape.size)


def _sd_attention(tape: Tape, block: int) -> None:
    with tape.scope(f"attention{block}"):
        tape.conv("proj_in", tape.channels, 1)
        tape.conv("proj_out", tape.channels, 1)
