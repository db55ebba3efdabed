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
        ("densenet121", 120, 6_870_208, 2_833_137_664),
        ("ssd300", 35, 35_630_272, 34_858_153_472),
        ("r3d18", 20, 33_156_672, 40_696_348_672),
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
    if name.startswith("vgg"):  # all convolutions have a bias
        classifier = linear(512 * 7 * 7, 4096) + linear(4096, 4096) + linear(4096, 1000)
        return sum(layer.base.out_channels for layer in layers) + classifier
    if name == "yolov3":  # the last of each head has a bias and no norm
        heads = [layer for layer in layers if layer.base.out_channels == 255]
        widths = [layer.base.out_channels for layer in layers if layer not in heads]
        return norms(*widths) + 255 * len(heads)
    features = {
        "resnet18": 512, "mobilenet-v2": 1280, "mobilenet-v1": 1024, "inception-v4": 1536,
    }.get(name, 2048)  # fmt: skip
    return norms(*(layer.base.out_channels for layer in layers)) + linear(features, 1000)


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("resnet50", 25_557_032),
        ("resnet18", 11_689_512),
        ("resnet101", 44_549_160),
        ("resnet152", 60_192_808),
        ("vgg11", 132_863_336),
        ("vgg16", 138_357_544),
        ("vgg19", 143_667_240),
        ("mobilenet-v1", 4_231_976),
        ("mobilenet-v2", 3_504_872),
        ("inception-v4", 42_679_816),
        ("yolov3", 61_949_149),
    ],
)
def test_parameters_of_the_whole_network(name: str, parameters: int) -> None:
    assert find_suite(name).weights + parameters_beside_convolutions(name) == parameters
    assert find_suite(name).parameters == parameters


@pytest.mark.parametrize(
    ("name", "published", "linear_layers"),
    [
        # Billions of multiply-adds that torchvision publishes, and those of the linear layers.
        ("alexnet", 0.714, 58_621_952),
        ("vgg11", 7.609, 123_633_664),
        ("vgg19", 19.632, 123_633_664),
        ("resnet101", 7.801, 2_048_000),
        ("resnet152", 11.514, 2_048_000),
        ("densenet121", 2.834, 1_024_000),
        ("mobilenet-v3-large", 0.217, 960 * 1280 + 1_280_000),
        ("mobilenet-v3-small", 0.057, 576 * 1024 + 1_024_000),
        ("efficientnet-b0", 0.386, 1_280_000),
        ("efficientnet-b4", 4.394, 1_792_000),
        ("shufflenet-v2", 0.145, 1_024_000),
        ("ssd300", 34.858, 0),
        ("r3d18", 40.697, 512 * 400),
        # Half of the floating-point operations that the authors publish.
        ("yolov3", 65.86 / 2, 0),
        ("yolov8n", 8.7 / 2, 0),
        ("yolov8s", 28.6 / 2, 0),
        ("mobilenet-v1", 0.569, 1_024_000),
    ],
)
def test_multiply_adds_are_those_published(name: str, published: float, linear_layers: int) -> None:
    total = find_suite(name).multiply_adds + linear_layers
    assert total / 1e9 == pytest.approx(published, rel=0.006, abs=0.0005)


@pytest.mark.parametrize("name", sorted(SUITES))
def test_convolutions_are_less_than_the_network(name: str) -> None:
    suite = find_suite(name)
    if suite.parameters is None:
        assert suite.includes
        return
    assert suite.weights < suite.parameters
    assert suite.title
    assert suite.source


@pytest.mark.parametrize(
    ("name", "digest"),
    [
        # As of version 0.1.0.
        ("mobilenet-v2", "17f89cb7e48747be94782c2cfbfbc57929298251996fd22615c42876e5c58ef4"),
        ("resnet18", "600de26544ec1ecbd37ebcd416e5de3100fdf38700af46663a8e6ca01b43ab65"),
        ("resnet50", "ad8932538d2e486b466892773d12547dd9ebe45fa2873ae3c8f50836a7dfa8bd"),
        ("unet-sd", "20ab802f9abdddcf5b45870ee4384867b6b79a3d48bd7d8e14b5c53cdcc08e38"),
        ("vgg16", "174a06b229fc9d51b755e401fd97e25abaddd5f5bcfec55264175ca11804cb5e"),
    ],
)
def test_suites_do_not_change(name: str, digest: str) -> None:
    assert load([f"suite:{name}"]).digest == digest


def test_parameters_of_stable_diffusions_unet() -> None:
    """The published 859,520,964 parameters, attention and time embedding included."""
    suite = find_suite("unet-sd")
    total = suite.weights + sum(layer.base.out_channels for layer in suite.layers)  # with biases
    total += linear(320, 1280) + linear(1280, 1280)  # time embedding
    total += norms(320)  # before conv_out
    for layer in suite.layers:
        width = layer.base.out_channels
        if layer.name.endswith("conv1"):  # of a residual block
            total += norms(layer.base.in_channels, width) + linear(1280, width)
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
        ("resnet50", "layer4.0.downsample.0", (1024, 2048, 14, 1, 2, 0, 1)),
        ("resnet50", "layer4.2.conv3", (512, 2048, 7, 1, 1, 0, 1)),
        ("resnet18", "layer4.0.conv1", (256, 512, 14, 3, 2, 1, 1)),
        ("vgg16", "features.28", (512, 512, 14, 3, 1, 1, 1)),
        ("mobilenet-v2", "features.1.conv.0.0", (32, 32, 112, 3, 1, 1, 32)),
        ("mobilenet-v2", "features.14.conv.1.0", (576, 576, 14, 3, 2, 1, 576)),
        ("mobilenet-v2", "features.18.0", (320, 1280, 7, 1, 1, 0, 1)),
        ("unet-sd", "down.2.0", (320, 320, 64, 3, 2, 1, 1)),
        ("unet-sd", "middle.0.conv1", (1280, 1280, 8, 3, 1, 1, 1)),
        ("unet-sd", "conv_out", (320, 4, 64, 3, 1, 1, 1)),
        ("yolov5s", "stem.0.0", (3, 32, 640, 6, 2, 2, 1)),
    ],
)
def test_layers(name: str, layer: str, expected: tuple[int, ...]) -> None:
    (found,) = [item.base for item in find_suite(name).layers if item.name == layer]
    channels, filters, size, window, stride, pad, groups = expected
    assert (found.in_channels, found.out_channels, found.groups) == (channels, filters, groups)
    assert found.in_size == (size, size)
    assert found.filter_size == (window, window)
    assert found.strides == (stride, stride)
    assert found.pads == (pad, pad)


def test_passes_of_transposed_convolutions() -> None:
    """PyTorch asks MIOpen for the backward data pass in the forward pass of such a layer."""
    (layer,) = [item for item in find_suite("unet").layers if item.name == "up.0"]
    passes = [
        layer.problem(dtype="fp16", direction=direction, batch=3)
        for direction in ("fwd", "bwd", "wrw")
    ]
    assert [problem.direction for problem in passes] == ["bwd", "fwd", "wrw"]
    assert {problem.in_size for problem in passes} == {(56, 56)}
    assert {problem.batch for problem in passes} == {3}
    assert layer.multiply_adds == 28 * 28 * 1024 * 512 * 4


def test_one_image_can_make_several_inputs() -> None:
    found = load(["suite:maskrcnn-resnet50"], batch=[2], directions=["fwd"], dtypes=["fp32"])
    assert {problem.batch for problem in found} == {2, 200}


@pytest.mark.parametrize("name", sorted(SUITES))
def test_layers_have_names(name: str) -> None:
    layers = SUITES[name].layers
    assert all(layer.name for layer in layers)
    weights: dict[str, set[int]] = {}
    for layer in layers:
        weights.setdefault(layer.name, set()).add(layer.weights)
    assert all(len(values) == 1 for values in weights.values())


def test_the_default_suite_is_made_of_others() -> None:
    default = find_suite("default")
    assert len(default.layers) == sum(len(find_suite(n).layers) for n in default.includes)
    assert set(load(["suite:default"])) == set(load([f"suite:{n}" for n in default.includes]))


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
    assert caught.value.hint == (
        "did you mean `maskrcnn-resnet50`, `resnet50`, `resnet152`, `resnet18`?"
    )
    with pytest.raises(UnknownNameError) as caught:
        find_suite("zzz")
    assert caught.value.hint == "`kdbforge problems suite:` lists the suites"
    with pytest.raises(InputError, match="`suite:` names no suite"):
        find_suite("")
