"""`kdbforge gpu`: the GPUs that databases can be built for, and what each is called."""

from __future__ import annotations

from typing import Any

import click
from rich.markup import escape

from kdbforge.cli.console import console, emit_json, print_table
from kdbforge.model.device import DeviceProfile, Gpu, Product
from kdbforge.model.target import TargetId
from kdbforge.vgpu.profiles import (
    expected_basename,
    expected_files,
    gcn_arch_name,
    load_profiles,
    product_slug,
    resolve,
)

__all__ = ["gpu"]


@click.group("gpu")
def gpu() -> None:
    """Known GPUs and their device profiles."""


@gpu.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_gpus(as_json: bool) -> None:
    """List the known GPUs, one line per architecture and CU count.

    CUs are what HIP reports: on RDNA half of what the box says.

    \b
    Example:
      kdbforge gpu list
    """
    profiles = load_profiles().values()
    if as_json:
        emit_json([_profile_json(profile) for profile in profiles])
        return
    rows = [_row(profile, num_cu) for profile in profiles for num_cu in profile.num_cus]
    print_table(["name", "gfx", "CUs", "wave", "memory", "products"], rows)


@gpu.command("show")
@click.argument("name")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def show_gpu(name: str, as_json: bool) -> None:
    """Show one GPU: what it reports, and the files that MIOpen looks for on it.

    NAME is a db basename, a product, or a target ID with a CU count.

    \b
    Example:
      kdbforge gpu show rx-6900-xt
      kdbforge gpu show gfx90a:sramecc+:xnack-/104
    """
    found = resolve(name)
    if as_json:
        emit_json(_gpu_json(found))
    else:
        width = max(len(label) for label, _ in _lines(found))
        for label, value in _lines(found):
            click.echo(f"{label:<{width}}  {value}")
    for warning in found.warnings:
        console.print(f"[bold yellow]warning:[/] {escape(warning)}")


def _row(profile: DeviceProfile, num_cu: int) -> list[str]:
    one = Gpu(profile, TargetId(profile.arch), num_cu, "")
    return [
        expected_basename(one),
        profile.arch,
        str(num_cu),
        str(profile.wave_size),
        _gib(profile),
        ", ".join(product.name for product in _sold_as(one)),
    ]


def _lines(found: Gpu) -> list[tuple[str, str]]:
    profile = found.profile
    sold_as = ", ".join(f"{p.name} ({product_slug(p)})" for p in _sold_as(found))
    return [
        ("gcnArchName", gcn_arch_name(found)),
        (
            "CUs",
            f"{found.num_cu}{' (workgroup processors, as HIP reports)' if profile.wgp else ''}",
        ),
        ("products", sold_as or "none known with this CU count"),
        ("other CU counts", ", ".join(str(n) for n in profile.num_cus if n != found.num_cu) or "-"),
        ("db basename", expected_basename(found)),
        ("system kdb", ", else ".join(expected_files(found))),
        ("user kdb", f"{expected_basename(found)}.ukdb"),
        ("wave size", str(profile.wave_size)),
        ("LDS per workgroup", f"{profile.lds_bytes >> 10} KiB"),
        ("memory", _gib(profile)),
        ("clock", f"{profile.clock_khz // 1000} MHz"),
        ("memory clock", f"{profile.memory_clock_khz // 1000} MHz"),
        ("largest grid (x)", str(profile.max_grid_dim_x)),
        ("cooperative launch", "yes" if profile.cooperative_launch else "no"),
        ("features", ", ".join(profile.features) or "-"),
        ("source", profile.source),
    ]


def _sold_as(found: Gpu) -> list[Product]:
    return [product for product in found.profile.products if product.num_cu == found.num_cu]


def _gib(profile: DeviceProfile) -> str:
    return f"{profile.memory_bytes >> 30} GiB"


def _profile_json(profile: DeviceProfile) -> dict[str, Any]:
    return {
        "arch": profile.arch,
        "num_cus": list(profile.num_cus),
        "products": [
            {"name": p.name, "slug": product_slug(p), "num_cu": p.num_cu} for p in profile.products
        ],
        "wave_size": profile.wave_size,
        "lds_bytes": profile.lds_bytes,
        "memory_bytes": profile.memory_bytes,
        "max_grid_dim_x": profile.max_grid_dim_x,
        "cooperative_launch": profile.cooperative_launch,
        "clock_khz": profile.clock_khz,
        "memory_clock_khz": profile.memory_clock_khz,
        "features": list(profile.features),
        "wgp": profile.wgp,
        "source": profile.source,
    }


def _gpu_json(found: Gpu) -> dict[str, Any]:
    return {
        "requested": found.requested,
        "gcn_arch_name": gcn_arch_name(found),
        "num_cu": found.num_cu,
        "expected_basename": expected_basename(found),
        "expected_files": list(expected_files(found)),
        "warnings": list(found.warnings),
        "profile": _profile_json(found.profile),
    }
