"""Debian's migraphx-driver compiles and runs an ONNX file on a virtual GPU.

It was built for an older ROCm than the toolchain; its packages (25 MB) are fetched without those
of ROCm that are replaced or that the toolchain has.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

import pytest
from small import Run

from kdbforge.planner.planfile import read_plan
from kdbforge.toolchain.apt import DEFAULT_MIRROR, Apt, host_keyrings, host_mirror
from kdbforge.toolchain.unpack import unpack

PACKAGE = "migraphx"
#: What it needs and the toolchain has not, beside what the virtual GPU replaces.
KEPT = (PACKAGE, "libprotobuf", "zlib1g")


@pytest.fixture(scope="module")
def migraphx(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `usr` of Debian's MIGraphX, unpacked."""
    folder = tmp_path_factory.mktemp("migraphx")
    mirror = host_mirror() or DEFAULT_MIRROR
    apt = Apt(folder / "apt", mirror=mirror, suites=("sid",), keyrings=host_keyrings())
    apt.update()
    others = [p for p in apt.closure([PACKAGE]) if not p.name.startswith(KEPT)]
    apt.pretend_installed(apt.show(others))
    packages = apt.complete(apt.closure([PACKAGE]))
    apt.download([PACKAGE], packages, lambda _bytes: None)
    for package in packages:
        unpack(apt.archives / package.file_name, folder / "root")
    return folder / "root" / "usr"


def field(number: int, value: int | str | bytes) -> bytes:
    """One field of a protocol buffer."""
    if isinstance(value, int):
        return bytes([number << 3, value])
    data = value.encode() if isinstance(value, str) else value
    return bytes([number << 3 | 2]) + varint(len(data)) + data


def varint(value: int) -> bytes:
    return bytes([value & 0x7F | 0x80, value >> 7]) if value > 0x7F else bytes([value])


def value_info(name: str, dims: Sequence[int]) -> bytes:
    shape = b"".join(field(1, field(1, dim)) for dim in dims)
    return field(1, name) + field(2, field(1, field(1, 1) + field(2, shape)))


def convolution() -> bytes:
    """An ONNX model of one convolution and a Relu (onnx.proto3)."""
    weights = b"".join(field(1, dim) for dim in (4, 3, 3, 3)) + field(2, 1) + field(8, "w")
    weights += field(9, struct.pack("<108f", *[0.5] * 108))
    nodes = [("Conv", ("x", "w"), "c"), ("Relu", ("c",), "y")]
    graph = b"".join(
        field(1, b"".join(field(1, name) for name in inputs) + field(2, output) + field(4, kind))
        for kind, inputs, output in nodes
    )
    graph += field(2, "graph") + field(5, weights)
    graph += field(11, value_info("x", (1, 3, 16, 16))) + field(12, value_info("y", (1, 4, 14, 14)))
    return field(1, 8) + field(7, graph) + field(8, field(2, 13))


def convolutions(lines: str) -> set[str]:
    return {line for line in lines.splitlines() if line.split()[1].startswith("conv")}


def test_compile_and_run(kdbforge: Run, tmp_path: Path, migraphx: Path) -> None:
    model, problems, plan = tmp_path / "model.onnx", tmp_path / "problems", tmp_path / "plan"
    model.write_bytes(convolution())
    libraries = migraphx / "lib" / "x86_64-linux-gnu"
    done = kdbforge(
        "run", "--gpu", "gfx1030_40", "--collect-problems", problems, "--capture", plan,
        "--library-path", libraries / "migraphx" / "lib", "--library-path", libraries,
        "--", migraphx / "bin" / "migraphx-driver", "run", model, "--gpu",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr + done.stdout
    assert "gpu::convolution" in done.stdout
    assert "not supported by the virtual GPU" not in done.stderr
    lines = kdbforge("problems", problems)
    assert lines.returncode == 0, lines.stderr
    assert lines.stdout.startswith("MIOpenDriver conv -n 1 -c 3 -H 16 -W 16 -k 4 -y 3 -x 3")
    listed = kdbforge("problems", model)  # by reading the file, as MIGraphX would call MIOpen
    assert convolutions(listed.stdout) == convolutions(lines.stdout)
    made = read_plan(plan)
    assert len(made.jobs) > len(made.gpus[0].records) > 0  # its own kernels are in no database
