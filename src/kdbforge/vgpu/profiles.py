"""Device profiles: load them from TOML, and find the one GPU that a user means by a name.

Knows nothing of the native part but the text of its profile file.
"""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from importlib import resources
from types import MappingProxyType
from typing import Any

from kdbforge.errors import InputError, UnknownNameError
from kdbforge.model.device import DeviceProfile, Gpu, Product
from kdbforge.model.target import TargetId

__all__ = [
    "MAX_CUS",
    "expected_basename",
    "expected_files",
    "gcn_arch_name",
    "load_profiles",
    "parse_profiles",
    "product_slug",
    "profile_text",
    "resolve",
]

#: CU counts that are accepted for a known architecture; the largest real device has 304.
MAX_CUS = 1024

_FEATURES = ("sramecc", "xnack")
#: Keys of a `[[profile]]` table and their types; every one is required, no other is allowed.
_PROFILE_KEYS: Mapping[str, type] = {
    "arch": str,
    "wave_size": int,
    "lds_kib": int,
    "memory_gib": int,
    "max_grid_dim_x": int,
    "cooperative_launch": bool,
    "clock_mhz": int,
    "memory_clock_mhz": int,
    "features": list,
    "wgp": bool,
    "source": str,
    "products": list,
}
_PRODUCT_KEYS: Mapping[str, type] = {"name": str, "num_cu": int}
_BRANDS = re.compile(r"^(?:amd\s+)?(?:(?:radeon|instinct|ryzen)\s+)?", re.IGNORECASE)
#: What follows the architecture in a db basename: feature suffixes, `_` and decimal, or hex.
_SUFFIX = re.compile(
    r"(?P<sramecc>_(?:no)?sramecc)?(?P<xnack>_xnack)?(?:_(?P<dec>[0-9]{1,9})|(?P<hex>[0-9a-f]{1,9}))"
)


@functools.cache
def load_profiles() -> Mapping[str, DeviceProfile]:
    """Device profiles that are shipped with kdbforge, by architecture, in order of name.

    Raises
    ------
    InputError
        If a profile file is damaged; the message names file and key.
    """
    folder = resources.files("kdbforge.vgpu").joinpath("profiles")
    profiles: dict[str, DeviceProfile] = {}
    for file in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if not file.name.endswith(".toml"):
            continue
        for profile in parse_profiles(file.read_text(encoding="utf-8"), file.name):
            if profile.arch in profiles:
                raise InputError(
                    f"Architecture `{profile.arch}` is defined twice", context=[file.name]
                )
            profiles[profile.arch] = profile
    return MappingProxyType(dict(sorted(profiles.items(), key=lambda item: _arch_order(item[0]))))


def parse_profiles(text: str, file_name: str) -> list[DeviceProfile]:
    """Read one profile file.

    Raises
    ------
    InputError
        If it is not TOML, or a key is missing, unknown, or out of range.
    """
    try:
        document = tomllib.loads(text)
    # Beside its own errors tomllib lets those of what is nested too deep or too long a number out.
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"Device profiles are not valid TOML: {error}", context=[file_name]
        ) from None
    tables = document.pop("profile", None)
    if document or not isinstance(tables, list) or not tables:
        unknown = ", ".join(f"`{key}`" for key in document) or "no `[[profile]]`"
        raise InputError(
            f"A profile file holds `[[profile]]` tables only: {unknown}", context=[file_name]
        )
    return [_parse_profile(table, f"{file_name}, profile {n}") for n, table in enumerate(tables, 1)]


def resolve(name: str) -> Gpu:
    """Find the GPU that `name` means.

    Accepted are a db basename (`gfx1030_40`, `gfx90a68`), a product (`rx-6900-xt`), a target ID
    with a CU count (`gfx90a:sramecc+:xnack-/104`), and a target ID alone where only one CU count
    is known. Any CU count up to 1024 is accepted for a known architecture; an odd choice is
    explained in `Gpu.warnings`.

    Raises
    ------
    UnknownNameError
        If the name means nothing; the nearest known names are suggested.
    InputError
        If the CU count is missing or absurd, or the architecture lacks a feature that is named.
    """
    text = name.strip().lower()
    if not text:
        raise InputError(
            "The name of a GPU is empty", hint="list the known ones: kdbforge gpu list"
        )
    gpu = _by_product(name, text) or _by_basename(name, text) or _by_target(name, text)
    if gpu is None:
        error = UnknownNameError("GPU", name, _known_names())
        error.hint = error.hint or "list the known ones: kdbforge gpu list"
        raise error
    return gpu


def gcn_arch_name(gpu: Gpu) -> str:
    """What the virtual GPU reports as gcnArchName: only the features that were asked for."""
    return str(gpu.target)


def expected_basename(gpu: Gpu) -> str:
    """The db basename that MIOpen 6.4 to 7.2 makes for the GPU, for messages only.

    The name of a file that is written always comes from the library itself.
    """
    # handle.hpp, GetDbBasename: decimal up to 64, then hexadecimal without separator.
    db_id = _expected_db_id(gpu)
    return f"{db_id}_{gpu.num_cu}" if gpu.num_cu <= 64 else f"{db_id}{gpu.num_cu:x}"


def expected_files(gpu: Gpu) -> tuple[str, str]:
    """System kdbs that MIOpen looks for, the first that exists alone; for messages only."""
    return f"{expected_basename(gpu)}.kdb", f"{_expected_db_id(gpu)}.kdb"


def _expected_db_id(gpu: Gpu) -> str:
    # target_properties.cpp, DbId: sramecc never reaches the name in these versions.
    return gpu.target.arch + ("_xnack" if gpu.target.xnack else "")


def profile_text(gpu: Gpu) -> str:
    """The profile file that the native part of the virtual GPU reads: `key=value` lines."""
    profile = gpu.profile
    fields = {
        "gcn_arch_name": gcn_arch_name(gpu),
        "num_cu": gpu.num_cu,
        "wave_size": profile.wave_size,
        "lds_bytes": profile.lds_bytes,
        "memory_bytes": profile.memory_bytes,
        "max_grid_dim_x": profile.max_grid_dim_x,
        "cooperative_launch": int(profile.cooperative_launch),
        "clock_khz": profile.clock_khz,
        "memory_clock_khz": profile.memory_clock_khz,
        "product_name": _product_name(gpu),
    }
    return "".join(f"{key}={value}\n" for key, value in fields.items())


def product_slug(product: Product) -> str:
    """The short form of a product's name for the command line, e.g. `rx-6900-xt`."""
    return re.sub(r"[^a-z0-9]+", "-", _BRANDS.sub("", product.name).lower()).strip("-")


def _product_name(gpu: Gpu) -> str:
    # The first product of that size, whatever words the user chose: equal GPUs report equally.
    for product in gpu.profile.products:
        if product.num_cu == gpu.num_cu:
            return f"AMD {product.name}"
    return f"AMD {gpu.profile.arch}"


# Reading profile files


def _parse_profile(table: object, where: str) -> DeviceProfile:
    values = _checked(table, _PROFILE_KEYS, where)
    arch = str(values["arch"])
    if TargetId.parse(arch) != TargetId(arch):
        raise InputError(f"Key `arch` is `{arch}`, and must name no feature", context=[where])
    features = tuple(values["features"])
    if any(feature not in _FEATURES for feature in features):
        raise InputError(f"Key `features` may hold {_FEATURES}: {features}", context=[where])
    if values["wave_size"] not in (32, 64):
        raise InputError("Key `wave_size` must be 32 or 64", context=[where])
    products = tuple(_parse_product(item, where) for item in values["products"])
    if not products:
        raise InputError("Key `products` is empty", context=[where])
    return DeviceProfile(
        arch=arch,
        products=products,
        num_cus=tuple(sorted({product.num_cu for product in products})),
        wave_size=values["wave_size"],
        lds_bytes=values["lds_kib"] << 10,
        memory_bytes=values["memory_gib"] << 30,
        max_grid_dim_x=values["max_grid_dim_x"],
        cooperative_launch=values["cooperative_launch"],
        clock_khz=values["clock_mhz"] * 1000,
        memory_clock_khz=values["memory_clock_mhz"] * 1000,
        features=features,
        wgp=values["wgp"],
        source=values["source"],
    )


def _parse_product(table: object, where: str) -> Product:
    values = _checked(table, _PRODUCT_KEYS, f"{where}, products")
    if values["num_cu"] > MAX_CUS:
        raise InputError(f"Key `num_cu` of `{values['name']}` is above {MAX_CUS}", context=[where])
    return Product(values["name"], values["num_cu"])


def _checked(table: object, keys: Mapping[str, type], where: str) -> dict[str, Any]:
    """The table itself, once its keys are exactly `keys` and their values of the right kind."""
    if not isinstance(table, dict):
        raise InputError("A table was expected", context=[where])
    values: dict[str, Any] = table
    for key in sorted(keys.keys() - values.keys()):
        raise InputError(f"Key `{key}` is missing", context=[where])
    for key in sorted(values.keys() - keys.keys()):
        raise InputError(f"Unknown key `{key}`", context=[where])
    for key, kind in keys.items():
        value = values[key]
        if type(value) is not kind:  # bool is an int to isinstance
            raise InputError(f"Key `{key}` must be of type {kind.__name__}", context=[where])
        if _is_bad(values[key]):
            raise InputError(f"Key `{key}` has the bad value `{value}`", context=[where])
    return values


def _is_bad(value: object) -> bool:
    if isinstance(value, str):
        return not value.strip() or not value.isprintable()
    # settings.c reads what becomes of these as C ints, but for the memory.
    return isinstance(value, int) and not isinstance(value, bool) and not 0 < value < 1 << 31


# Finding a GPU by name


@dataclass(frozen=True, slots=True)
class _Sold:
    profile: DeviceProfile
    product: Product


@functools.cache
def _products() -> Mapping[str, tuple[_Sold, ...]]:
    """Products by squeezed name, with and without the brand."""
    found: dict[str, tuple[_Sold, ...]] = {}
    for profile in load_profiles().values():
        for product in profile.products:
            sold = _Sold(profile, product)
            short = _BRANDS.sub("", product.name)
            for alias in {_squeeze(text) for text in (product.name, f"AMD {product.name}", short)}:
                found[alias] = (*found.get(alias, ()), sold)
    return found


def _squeeze(text: str) -> str:
    return re.sub(r"[^a-z0-9]", "", text.lower())


def _by_product(name: str, text: str) -> Gpu | None:
    if not re.fullmatch(r"[a-z0-9 _()-]+", text):
        return None
    sold = _products().get(_squeeze(text), ())
    if not sold:
        return None
    gpus = [
        Gpu(item.profile, TargetId(item.profile.arch), item.product.num_cu, name) for item in sold
    ]
    if len({(gpu.target, gpu.num_cu) for gpu in gpus}) > 1:
        forms = ", ".join(f"`{expected_basename(gpu)}`" for gpu in gpus)
        raise InputError(f"`{name}` was sold in several forms: {forms}")
    return gpus[0]


def _by_basename(name: str, text: str) -> Gpu | None:
    profile = _profile_of(text)
    match = _SUFFIX.fullmatch(text, len(profile.arch)) if profile else None
    if profile is None or match is None:
        return None
    num_cu = _cu_count(name, int(match["dec"]) if match["dec"] else int(match["hex"], 16))
    sramecc = match["sramecc"] == "_sramecc" if match["sramecc"] else None
    target = TargetId(profile.arch, sramecc, True if match["xnack"] else None)
    if match["hex"] and num_cu <= 64:
        # MIOpen never writes this, so one cannot know whether 40 was meant as hex or decimal.
        raise InputError(
            f"`{name}` is no db basename: hexadecimal CU counts start above 64",
            hint=f"write `{profile.arch}_{num_cu}` or `{profile.arch}_{match['hex']}`",
        )
    gpu = _make(profile, target, num_cu, name)
    basename = expected_basename(gpu)
    if basename == text:
        return gpu
    note = f"MIOpen will look for `{basename}`, not for `{text}`"
    return replace(gpu, warnings=(note, *gpu.warnings))


def _by_target(name: str, text: str) -> Gpu | None:
    target_text, slash, count = text.partition("/")
    profile = load_profiles().get(target_text.partition(":")[0])
    if profile is None:
        return None
    target = TargetId.parse(target_text)
    if slash:
        if not re.fullmatch(r"[0-9]{1,9}", count):
            raise InputError(f"`{count}` is not a CU count in `{name}`")
        return _make(profile, target, _cu_count(name, int(count)), name)
    if len(profile.num_cus) > 1:
        known = ", ".join(f"{count} ({_names(profile, count)})" for count in profile.num_cus)
        raise InputError(
            f"`{name}` exists with several CU counts: {known}",
            hint=f"add one, like `{target}/{profile.products[0].num_cu}`",
        )
    return _make(profile, target, profile.num_cus[0], name)


def _profile_of(text: str) -> DeviceProfile | None:
    """The profile whose architecture starts a db basename; no known one starts another."""
    for arch, profile in load_profiles().items():
        if text.startswith(arch):
            return profile
    return None


def _cu_count(name: str, count: int) -> int:
    if not 1 <= count <= MAX_CUS:
        raise InputError(f"The CU count of `{name}` is {count}; allowed are 1 to {MAX_CUS}")
    return count


def _make(profile: DeviceProfile, target: TargetId, num_cu: int, name: str) -> Gpu:
    for feature in _FEATURES:
        if getattr(target, feature) is not None and feature not in profile.features:
            has = ", ".join(profile.features) or "none"
            raise InputError(
                f"{profile.arch} has no feature `{feature}`; it has: {has}", context=[name]
            )
    gpu = Gpu(profile, target, num_cu, name)
    return replace(gpu, warnings=tuple(_cu_warnings(gpu)))


def _cu_warnings(gpu: Gpu) -> Iterator[str]:
    profile, num_cu = gpu.profile, gpu.num_cu
    if num_cu in profile.num_cus:
        return
    half = num_cu // 2
    if profile.wgp and num_cu % 2 == 0 and half in profile.num_cus:
        real = Gpu(profile, gpu.target, half, gpu.requested)
        yield (
            f"The {_first_name(profile, half)} has {num_cu} compute units on the box, but HIP "
            f"reports {half}: on it MIOpen will look for `{expected_basename(real)}`, "
            f"not for `{expected_basename(gpu)}`"
        )
        return
    known = ", ".join(str(count) for count in profile.num_cus)
    yield f"No known {profile.arch} product has {num_cu} CUs as HIP counts them (known: {known})"


def _names(profile: DeviceProfile, num_cu: int) -> str:
    return ", ".join(product.name for product in profile.products if product.num_cu == num_cu)


def _first_name(profile: DeviceProfile, num_cu: int) -> str:
    return next(product.name for product in profile.products if product.num_cu == num_cu)


def _known_names() -> Iterable[str]:
    names: dict[str, None] = {}
    for profile in load_profiles().values():
        names[profile.arch] = None
        for product in profile.products:
            gpu = Gpu(profile, TargetId(profile.arch), product.num_cu, "")
            names[expected_basename(gpu)] = None
            names[product_slug(product)] = None
    return names


def _arch_order(arch: str) -> tuple[int, str]:
    return len(arch), arch
