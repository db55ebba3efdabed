"""Writes the suites' data files: `python scripts/suites/record.py [NAME...]`.

Needs PyTorch and torchvision, a CPU build of both. Every network is recorded as PyTorch's ROCm
build would run it, and its number of parameters is checked against what is published.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import detection
import diffusion
import others
import torch
import torchvision
from torch import nn
from torchvision import models

import kdbforge.torch

DATA = Path(__file__).parents[2] / "src/kdbforge/problems/suites/data"
#: Batch normalisation wants more than one value a channel, so two images are recorded.
BATCH = 2


@dataclass(frozen=True)
class Network:
    name: str
    title: str
    source: str
    parameters: int  # as published
    make: Callable[[], nn.Module]
    shape: tuple[int, ...]  # of one input, without the batch
    run: Callable[[Any, torch.Tensor], Any] = lambda model, x: model(x)


def ssd(model: Any, x: torch.Tensor) -> None:
    model.head(list(model.backbone(x).values()))


def mask_rcnn(model: Any, x: torch.Tensor) -> None:
    """Backbone, pyramid, proposals, and the mask branch on 100 detections of each image."""
    features = model.backbone(x)
    model.rpn.head(list(features.values()))
    heads = model.roi_heads
    heads.mask_predictor(heads.mask_head(torch.randn(100 * x.shape[0], 256, 14, 14)))


def vision(name: str, title: str, source: str, *, size: int = 224, **options: Any) -> Network:
    """A classifier of torchvision, with the number of parameters that it publishes."""
    function = options.pop("function", name.replace("-", "_"))
    weights = models.get_model_weights(function).DEFAULT
    return Network(
        name,
        f"{title}, {size}x{size}",
        f"{source}; torchvision.models.{function}",
        weights.meta["num_params"] + options.pop("auxiliary", 0),
        lambda: models.get_model(function, weights=None, **options),
        (3, size, size),
    )


NETWORKS = (
    vision("alexnet", "AlexNet", "Krizhevsky 2014, arXiv:1404.5997"),
    vision("vgg11", "VGG-11", "Simonyan and Zisserman 2014, arXiv:1409.1556, configuration A"),
    vision("vgg16", "VGG-16", "Simonyan and Zisserman 2014, arXiv:1409.1556, configuration D"),
    vision("vgg19", "VGG-19", "Simonyan and Zisserman 2014, arXiv:1409.1556, configuration E"),
    vision("resnet18", "ResNet-18", "He et al. 2015, arXiv:1512.03385"),
    vision("resnet50", "ResNet-50 v1.5", "He et al. 2015, arXiv:1512.03385; stride on the 3x3"),
    vision("resnet101", "ResNet-101 v1.5", "He et al. 2015, arXiv:1512.03385; stride on the 3x3"),
    vision("resnet152", "ResNet-152 v1.5", "He et al. 2015, arXiv:1512.03385; stride on the 3x3"),
    vision("densenet121", "DenseNet-121", "Huang et al. 2016, arXiv:1608.06993"),
    # The weights that torchvision publishes for GoogLeNet are without its auxiliary classifiers.
    vision(
        "googlenet", "GoogLeNet with auxiliary classifiers", "Szegedy et al. 2014, arXiv:1409.4842",
        auxiliary=6_379_984, init_weights=False, aux_logits=True,
    ),
    vision(
        "inception-v3", "Inception v3 with auxiliary classifier",
        "Szegedy et al. 2015, arXiv:1512.00567", size=299, init_weights=False,
    ),
    Network(
        "inception-v4", "Inception v4, 299x299", "Szegedy et al. 2016, arXiv:1602.07261",
        42_679_816, others.inception_v4, (3, 299, 299),
    ),
    Network(
        "mobilenet-v1", "MobileNet 1.0, 224x224", "Howard et al. 2017, arXiv:1704.04861",
        4_231_976, others.mobilenet_v1, (3, 224, 224),
    ),
    vision("mobilenet-v2", "MobileNetV2 1.0", "Sandler et al. 2018, arXiv:1801.04381"),
    vision("mobilenet-v3-large", "MobileNetV3 large", "Howard et al. 2019, arXiv:1905.02244"),
    vision("mobilenet-v3-small", "MobileNetV3 small", "Howard et al. 2019, arXiv:1905.02244"),
    vision("efficientnet-b0", "EfficientNet-B0", "Tan and Le 2019, arXiv:1905.11946"),
    vision("efficientnet-b4", "EfficientNet-B4", "Tan and Le 2019, arXiv:1905.11946", size=380),
    vision(
        "shufflenet-v2", "ShuffleNet v2 1.0", "Ma et al. 2018, arXiv:1807.11164",
        function="shufflenet_v2_x1_0",
    ),
    vision(
        "convnext-tiny", "ConvNeXt-T", "Liu et al. 2022, arXiv:2201.03545; its 1x1 convolutions"
        " are linear layers",
    ),
    Network(
        "ssd300", "SSD300 with VGG-16, 300x300",
        "Liu et al. 2015, arXiv:1512.02325; torchvision.models.detection.ssd300_vgg16",
        35_641_826,
        lambda: models.detection.ssd300_vgg16(weights=None, weights_backbone=None),
        (3, 300, 300), ssd,
    ),
    Network(
        "maskrcnn-resnet50", "Mask R-CNN with ResNet-50 FPN, 800x1344",
        "He et al. 2017, arXiv:1703.06870; torchvision.models.detection.maskrcnn_resnet50_fpn,"
        " the mask branch on 100 detections",
        44_401_393,
        lambda: models.detection.maskrcnn_resnet50_fpn(weights=None, weights_backbone=None),
        (3, 800, 1344), mask_rcnn,
    ),
    Network(
        "yolov3", "YOLOv3, 416x416", "Redmon and Farhadi 2018, arXiv:1804.02767; yolov3.cfg",
        61_949_149, detection.YoloV3, (3, 416, 416),
    ),
    Network(
        "yolov5s", "YOLOv5s, 640x640", "Ultralytics 2020, yolov5s.yaml of release 6",
        7_235_389, detection.yolov5s, (3, 640, 640),
    ),
    Network(
        "yolov8n", "YOLOv8n, 640x640", "Ultralytics 2023, yolov8.yaml, scale n",
        3_157_200, detection.yolov8n, (3, 640, 640),
    ),
    Network(
        "yolov8s", "YOLOv8s, 640x640", "Ultralytics 2023, yolov8.yaml, scale s",
        11_166_560, detection.yolov8s, (3, 640, 640),
    ),
    Network(
        "unet", "U-Net, 572x572", "Ronneberger et al. 2015, arXiv:1505.04597, figure 1",
        31_030_658, detection.UNet, (1, 572, 572),
    ),
    Network(
        "unet-sd", "Stable Diffusion 1.5 U-Net, 64x64 latent",
        "Rombach et al. 2021, arXiv:2112.10752; CompVis/stable-diffusion v1-inference.yaml",
        859_520_964, diffusion.sd15_unet, (4, 64, 64),
    ),
    Network(
        "unet-sdxl", "Stable Diffusion XL U-Net, 128x128 latent",
        "Podell et al. 2023, arXiv:2307.01952; stable-diffusion-xl-base-1.0; its projections are"
        " linear layers",
        2_567_463_684, diffusion.sdxl_unet, (4, 128, 128),
    ),
    Network(
        "vae-decoder-sd", "Stable Diffusion VAE decoder, 64x64 latent to 512x512",
        "Rombach et al. 2021, arXiv:2112.10752, kl-f8",
        49_490_199, diffusion.vae_decoder, (4, 64, 64),
    ),
    Network(
        "vae-decoder-sdxl", "Stable Diffusion XL VAE decoder, 128x128 latent to 1024x1024",
        "Podell et al. 2023, arXiv:2307.01952; the same decoder",
        49_490_199, diffusion.vae_decoder, (4, 128, 128),
    ),
    *(
        Network(
            f"whisper-{name}", f"Whisper {name} encoder convolutions, 30 s",
            f"Radford et al. 2022, arXiv:2212.04356; openai/whisper, {name}{version}",
            width * (3 * (mels + width) + 2), lambda m=mels, w=width: others.Whisper(m, w),
            (mels, 3000),
        )
        for name, width, mels, version in (
            ("tiny", 384, 80, ""), ("base", 512, 80, ""), ("small", 768, 80, ""),
            ("medium", 1024, 80, ""), ("large", 1280, 128, "-v3"),
        )
    ),
    Network(
        "wav2vec2", "wav2vec 2.0 BASE convolutions, 10 s at 16 kHz",
        "Baevski et al. 2020, arXiv:2006.11477, section 4.2",
        4_199_424 + 393_984 + 4_719_360, others.Wav2Vec2, (1, 160_000),
    ),
    Network(
        "r3d18", "R3D-18, 16 frames of 112x112",
        "Tran et al. 2017, arXiv:1711.11248; torchvision.models.video.r3d_18",
        33_371_472, lambda: models.video.r3d_18(weights=None), (3, 16, 112, 112),
    ),
)  # fmt: skip


def record(network: Network) -> str:
    """Return the text of a network's data file."""
    with kdbforge.torch.record() as recording, torch.no_grad():
        model = network.make().train()
        recording.calls.clear()  # SSD runs its backbone to learn its channels
        network.run(model, torch.randn(BATCH, *network.shape))
    parameters = sum(p.numel() for p in model.parameters())
    norms = [m for m in model.modules() if isinstance(m, nn.BatchNorm2d)]
    # The batch norms of Mask R-CNN's published weights are frozen, and so not counted.
    frozen = sum(p.numel() for norm in norms for p in norm.parameters())
    if network.parameters not in (parameters, parameters - frozen):
        sys.exit(f"{network.name}: {parameters} parameters, {network.parameters} are published")
    lines = [
        f"# title: {network.title}",
        f"# source: {network.source}",
        f"# parameters: {network.parameters}",
    ]
    for call in recording.calls:
        if call.line.split()[1] == "conv":
            lines.append(f"{_one_image(call.line)} # {call.origin.partition('.')[2]}")
    return "\n".join(lines) + "\n"


def _one_image(line: str) -> str:
    words = line.split()
    at = words.index("-n") + 1
    words[at] = str(int(words[at]) // BATCH)
    return " ".join(words)


def main(names: list[str]) -> None:
    DATA.mkdir(exist_ok=True)
    for network in NETWORKS:
        if not names or network.name in names:
            text = record(network)
            (DATA / f"{network.name}.txt").write_text(text, encoding="utf-8")
            print(f"{network.name}: {text.count('MIOpenDriver')} convolutions")
    print(f"recorded with PyTorch {torch.__version__} and torchvision {torchvision.__version__}")


if __name__ == "__main__":
    main(sys.argv[1:])
