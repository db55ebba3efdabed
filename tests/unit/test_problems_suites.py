"""The suites against what is published about their networks."""

from __future__ import annotations

import pytest

from kdbforge.errors import InputError, UnknownNameError
from kdbforge.problems import SUITES, check, find_suite, load


@pytest.mark.parametrize(
    ("name", "convolutions", "weights", "multiply_adds"),
    [
        # Totals of torchvision's models less their linear layers, biases and batch norms.
        ("resnet50", 53, 23_454_912, 4_087_136_256),
        ("resnet18", 20, 11_166_912, 1_813_561_344),
        ("vgg16", 13, 14_710_464, 15_346_630_656),
        ("mobilenet-v2", 52, 2_189_760, 299_494_272),
    ],
)
def test_totals(name: str, convolutions: int, weights: int, multiply_adds: int) -> None:
    suite = find_suite(name)
    assert len(suite.layers) == convolutions
    assert suite.weights == weights
    assert suite.multiply_adds == multiply_adds


def linear(inputs: int, outputs: int, *, bias: bool = True) -> int:
    return inputs * outputs + (outputs if bias else 0)


def norms(*channels: int) -> int:
    return sum(2 * c for c in channels)


def parameters_beside_convolutions(name: str) -> int:
    """Parameters of all other layers, from the widths of the convolutions beside them."""
    layers = find_suite(name).layers
    if name == "vgg16":  # all convolutions have a bias
        classifier = linear(512 * 7 * 7, 4096) + linear(4096, 4096) + linear(4096, 1000)
        return sum(layer.out_channels for layer in layers) + classifier
    features = {"resnet50": 2048, "resnet18": 512, "mobilenet-v2": 1280}[name]
    return norms(*(layer.out_channels for layer in layers)) + linear(features, 1000)


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("resnet50", 25_557_032),
        ("resnet18", 11_689_512),
        ("vgg16", 138_357_544),
        ("mobilenet-v2", 3_504_872),
    ],
)
def test_parameters_of_the_whole_network(name: str, parameters: int) -> None:
    assert find_suite(name).weights + parameters_beside_convolutions(name) == parameters


def test_parameters_of_stable_diffusions_unet() -> None:
    """The published 859,520,964 parameters, attention and time embedding included."""
    suite = find_suite("unet-sd")
    total = suite.weights + sum(layer.out_channels for layer in suite.layers)  # with biases
    total += linear(320, 1280) + linear(1280, 1280)  # time embedding
    total += norms(320)  # before conv_out
    for layer in suite.layers:
        width = layer.out_channels
        if layer.name.endswith("conv1"):  # of a residual block
            total += norms(layer.in_channels, width) + linear(1280, width)
        elif layer.name.endswith("proj_in"):  # of a transformer block
            total += norms(width) + norms(width, width, width)
            total += 3 * linear(width, width, bias=False) + linear(width, width)
            total += linear(width, width, bias=False) + 2 * linear(768, width, bias=False)
            total += linear(width, width)
            total += linear(width, 8 * width) + linear(4 * width, width)
    assert len(suite.layers) == 98
    assert total == 859_520_964


@pytest.mark.parametrize(
    ("name", "layer", "expected"),
    [
        ("resnet50", "conv1", (3, 64, 224, 7, 2, 3, 1)),
        ("resnet50", "layer1.0.conv1", (64, 64, 56, 1, 1, 0, 1)),
        ("resnet50", "layer2.0.conv2", (128, 128, 56, 3, 2, 1, 1)),
        ("resnet50", "layer4.0.downsample", (1024, 2048, 14, 1, 2, 0, 1)),
        ("resnet50", "layer4.2.conv3", (512, 2048, 7, 1, 1, 0, 1)),
        ("resnet18", "layer4.0.conv1", (256, 512, 14, 3, 2, 1, 1)),
        ("vgg16", "conv5_3", (512, 512, 14, 3, 1, 1, 1)),
        ("mobilenet-v2", "bottleneck1.0.depthwise", (32, 32, 112, 3, 1, 1, 32)),
        ("mobilenet-v2", "bottleneck6.0.depthwise", (576, 576, 14, 3, 2, 1, 576)),
        ("mobilenet-v2", "conv2", (320, 1280, 7, 1, 1, 0, 1)),
        ("unet-sd", "down0.downsample", (320, 320, 64, 3, 2, 1, 1)),
        ("unet-sd", "middle.residual0.conv1", (1280, 1280, 8, 3, 1, 1, 1)),
        ("unet-sd", "up2.residual2.conv1", (1920, 1280, 16, 3, 1, 1, 1)),
        ("unet-sd", "up0.residual0.conv1", (960, 320, 64, 3, 1, 1, 1)),
        ("unet-sd", "conv_out", (320, 4, 64, 3, 1, 1, 1)),
    ],
)
def test_layers(name: str, layer: str, expected: tuple[int, ...]) -> None:
    (found,) = [item for item in find_suite(name).layers if item.name == layer]
    assert expected == (
        found.in_channels,
        found.out_channels,
        found.in_size,
        found.filter_size,
        found.stride,
        found.pad,
        found.groups,
    )


@pytest.mark.parametrize("name", sorted(SUITES))
def test_names_of_layers_are_unique(name: str) -> None:
    names = [layer.name for layer in SUITES[name].layers]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("name", "unique"),
    [("resnet50", 138), ("resnet18", 66), ("vgg16", 54), ("mobilenet-v2", 180), ("unet-sd", 210)],
)
def test_problems_of_a_suite(name: str, unique: int) -> None:
    found = load([f"suite:{name}"])
    assert len(found) == unique
    assert found.total == len(SUITES[name].layers) * 2 * 3
    assert {problem.dtype for problem in found} == {"fp32", "fp16"}
    assert {problem.batch for problem in found} == {1}
    for problem in found:
        check(problem)


def test_unknown_suites() -> None:
    with pytest.raises(UnknownNameError) as caught:
        find_suite("resnet5")
    assert caught.value.message == "Unknown suite `resnet5`"
    assert caught.value.hint == "did you mean `resnet50`, `resnet18`?"
    with pytest.raises(UnknownNameError) as caught:
        find_suite("zzz")
    assert caught.value.hint == "`kdbforge problems suite:` lists the suites"
    with pytest.raises(InputError, match="`suite:` names no suite"):
        find_suite("")
