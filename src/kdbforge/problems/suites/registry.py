"""The suites by name."""

from __future__ import annotations

from collections.abc import Mapping

from kdbforge.errors import InputError, UnknownNameError
from kdbforge.problems.suites import networks
from kdbforge.problems.suites.layers import Suite

__all__ = ["PREFIX", "SUITES", "find_suite"]

#: What a source that is a suite begins with.
PREFIX = "suite:"

_ALL = (
    Suite(
        "resnet50",
        "ResNet-50 v1.5, 224x224",
        "He et al. 2015, arXiv:1512.03385; stride on the 3x3 as in torchvision.models.resnet50",
        tuple(networks.resnet50()),
    ),
    Suite(
        "resnet18",
        "ResNet-18, 224x224",
        "He et al. 2015, arXiv:1512.03385",
        tuple(networks.resnet18()),
    ),
    Suite(
        "vgg16",
        "VGG-16, 224x224",
        "Simonyan and Zisserman 2014, arXiv:1409.1556, configuration D",
        tuple(networks.vgg16()),
    ),
    Suite(
        "mobilenet-v2",
        "MobileNetV2 1.0, 224x224",
        "Sandler et al. 2018, arXiv:1801.04381",
        tuple(networks.mobilenet_v2()),
    ),
    Suite(
        "unet-sd",
        "Stable Diffusion 1.5 U-Net, 64x64 latent",
        "Rombach et al. 2021, arXiv:2112.10752; CompVis/stable-diffusion v1-inference.yaml",
        tuple(networks.unet_sd()),
    ),
)
SUITES: Mapping[str, Suite] = {suite.name: suite for suite in _ALL}


def find_suite(name: str) -> Suite:
    """Return the suite of that name.

    Raises
    ------
    UnknownNameError
        If there is none; the nearest are in the hint.
    """
    suite = SUITES.get(name)
    if suite is not None:
        return suite
    known = "`kdbforge problems suite:` lists the suites"
    if not name:
        raise InputError("`suite:` names no suite", hint=known)
    error = UnknownNameError("suite", name, SUITES)
    if error.hint is None:
        error.hint = known
    raise error
