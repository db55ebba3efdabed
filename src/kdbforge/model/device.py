"""What a virtual GPU reports: the device profile of an architecture, and one GPU of it."""

from __future__ import annotations

from dataclasses import dataclass

from kdbforge.model.target import TargetId

__all__ = ["DeviceProfile", "Gpu", "Product"]


@dataclass(frozen=True, slots=True)
class Product:
    """A card or processor that is sold, and its CU count as HIP reports it."""

    name: str
    num_cu: int


@dataclass(frozen=True, slots=True)
class DeviceProfile:
    """All that the virtual GPU reports for one architecture; the CU count is chosen apart."""

    arch: str
    products: tuple[Product, ...]
    num_cus: tuple[int, ...]  # CU counts that are known, as HIP reports them
    wave_size: int  # lanes of a wave
    lds_bytes: int  # LDS per workgroup
    memory_bytes: int
    max_grid_dim_x: int
    cooperative_launch: bool
    clock_khz: int
    memory_clock_khz: int
    features: tuple[str, ...]  # of "sramecc", "xnack": those that the architecture has at all
    wgp: bool  # HIP counts workgroup processors, half of the compute units on the box
    source: str


@dataclass(frozen=True, slots=True)
class Gpu:
    """One virtual GPU: a device profile, a target ID and a CU count."""

    profile: DeviceProfile
    target: TargetId
    num_cu: int
    requested: str  # the user's own words for it
    warnings: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.target}/{self.num_cu}"
