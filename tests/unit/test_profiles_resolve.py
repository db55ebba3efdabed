"""Names of GPUs: every form that is accepted, and what is said of the others."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kdbforge.errors import InputError, KdbforgeError, UnknownNameError
from kdbforge.vgpu.profiles import (
    expected_basename,
    expected_files,
    gcn_arch_name,
    load_profiles,
    product_slug,
    resolve,
)


@pytest.mark.parametrize(
    ("name", "arch_name", "num_cu"),
    [
        ("gfx1030_40", "gfx1030", 40),
        ("GFX1030_40", "gfx1030", 40),
        (" gfx1030_40\n", "gfx1030", 40),
        ("gfx906_60", "gfx906", 60),
        ("gfx90a68", "gfx90a", 104),
        ("gfx90a_xnack6e", "gfx90a:xnack+", 110),
        ("gfx90c_xnack_7", "gfx90c:xnack+", 7),
        ("gfx90878", "gfx908", 120),
        ("gfx942130", "gfx942", 304),
        ("gfx942e4", "gfx942", 228),
        ("rx-6900-xt", "gfx1030", 40),
        ("RX 6900 XT", "gfx1030", 40),
        ("rx_6900_xt", "gfx1030", 40),
        ("rx6900xt", "gfx1030", 40),
        ("AMD Radeon RX 6900 XT", "gfx1030", 40),
        ("RX 5700 XT", "gfx1010", 20),
        ("mi210", "gfx90a", 104),
        ("Instinct MI300A", "gfx942", 228),
        ("780m", "gfx1103", 6),
        ("gfx90a:sramecc+:xnack-/104", "gfx90a:sramecc+:xnack-", 104),
        ("gfx90a:xnack-:sramecc+/104", "gfx90a:sramecc+:xnack-", 104),
        ("gfx1030/40", "gfx1030", 40),
        ("gfx908", "gfx908", 120),
        ("gfx950:xnack+", "gfx950:xnack+", 256),
    ],
)
def test_accepted_names(name: str, arch_name: str, num_cu: int) -> None:
    gpu = resolve(name)
    assert gcn_arch_name(gpu) == arch_name
    assert gpu.num_cu == num_cu
    assert gpu.requested == name
    assert gpu.warnings == ()


# What MIOpen itself made of these devices.
@pytest.mark.parametrize(
    ("target", "num_cu", "basename"),
    [
        ("gfx803", 36, "gfx803_36"),
        ("gfx900:xnack+", 65, "gfx900_xnack41"),
        ("gfx90a:sramecc+:xnack-", 104, "gfx90a68"),
        ("gfx90a", 64, "gfx90a_64"),
        ("gfx90c:xnack+", 7, "gfx90c_xnack_7"),
        ("gfx1010:xnack-", 20, "gfx1010_20"),
        ("gfx1100", 48, "gfx1100_48"),
        ("gfx906:sramecc-:xnack-", 60, "gfx906_60"),
        ("gfx908:sramecc+:xnack-", 120, "gfx90878"),
        ("gfx90a:sramecc+:xnack+", 110, "gfx90a_xnack6e"),
        ("gfx942:sramecc+:xnack-", 304, "gfx942130"),
        ("gfx902:xnack+", 8, "gfx902_xnack_8"),
    ],
)
def test_expected_basename(target: str, num_cu: int, basename: str) -> None:
    gpu = resolve(f"{target}/{num_cu}")
    assert expected_basename(gpu) == basename
    again = resolve(basename)
    assert (again.target.arch, again.num_cu) == (gpu.target.arch, num_cu)
    assert again.target.xnack == (gpu.target.xnack or None)


def test_expected_files() -> None:
    assert expected_files(resolve("gfx1030_40")) == ("gfx1030_40.kdb", "gfx1030.kdb")
    assert expected_files(resolve("gfx90a_xnack6e"))[1] == "gfx90a_xnack.kdb"


@pytest.mark.parametrize(
    ("name", "hip", "basename"),
    [
        ("gfx1010_40", 20, "gfx1010_20"),
        ("gfx1010_36", 18, "gfx1010_18"),
        ("gfx1011_36", 18, "gfx1011_18"),
        ("gfx1012_22", 11, "gfx1012_11"),
        ("gfx110060", 48, "gfx1100_48"),
        ("gfx1030/80", 40, "gfx1030_40"),
    ],
)
def test_cu_count_of_the_box_is_built_with_a_warning(name: str, hip: int, basename: str) -> None:
    gpu = resolve(name)
    assert gpu.num_cu == 2 * hip
    (warning,) = gpu.warnings
    assert f"HIP reports {hip}:" in warning
    assert f"`{basename}`" in warning


def test_names_of_the_original_request_all_resolve() -> None:
    wanted = ["gfx1010_36", "gfx1010_40", "gfx1011_36", "gfx1030_30", "gfx1030_40"]
    wanted += ["gfx803_56", "gfx803_64", "gfx1012_22", "gfx1031_20"]
    assert [expected_basename(resolve(name)) for name in wanted] == wanted


def test_unknown_cu_count_warns() -> None:
    assert resolve("gfx1030_17").warnings == (
        "No known gfx1030 product has 17 CUs as HIP counts them (known: 30, 36, 40)",
    )


def test_name_that_miopen_writes_otherwise_warns() -> None:
    assert resolve("gfx90a_104").num_cu == 104
    assert resolve("gfx90a_104").warnings == (
        "MIOpen will look for `gfx90a68`, not for `gfx90a_104`",
    )
    assert resolve("gfx906_nosramecc_60").target.sramecc is False
    assert "`gfx906_60`" in resolve("gfx906_nosramecc_60").warnings[0]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", "empty"),
        ("  ", "empty"),
        ("gfx1030", "30 .*36 .*40 .*"),
        ("gfx90a40", "hexadecimal"),
        ("gfx1030_0", "is 0; allowed are 1 to 1024"),
        ("gfx1030_1025", "is 1025"),
        ("gfx1030/0", "is 0"),
        ("gfx1030/-4", "`-4` is not a CU count"),
        ("gfx1030/", "`` is not a CU count"),
        ("gfx1030/4/4", "`4/4` is not a CU count"),
        ("gfx1030:xnack+/40", "no feature `xnack`"),
        ("gfx1030_xnack_40", "no feature `xnack`"),
        ("gfx900:sramecc+/64", "no feature `sramecc`; it has: xnack"),
        ("gfx90a:wgp+/104", "Unknown or repeated feature"),
        ("gfx90a:xnack/104", "not a target ID"),
    ],
)
def test_refused_names(name: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as info:
        resolve(name)
    assert not isinstance(info.value, UnknownNameError)


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("gfx1039_40", "`gfx1030_40`"),
        ("rx-6901-xt", "`rx-6900-xt`"),
        ("gfx1030_", "`gfx1030`"),
        ("gfx109", "`gfx1"),
        ("36kbk", "kdbforge gpu list"),
        ("gfx1030_40.kdb", "`gfx1030_40`"),
        ("gfx1030_" + "9" * 5000, "kdbforge gpu list"),
    ],
)
def test_unknown_name_suggests_near_ones(name: str, near: str) -> None:
    with pytest.raises(UnknownNameError) as info:
        resolve(name)
    assert near in (info.value.hint or "")


def test_every_product_is_found_by_its_slug_and_its_name() -> None:
    for profile in load_profiles().values():
        for product in profile.products:
            for name in (product.name, product_slug(product), f"AMD {product.name}"):
                gpu = resolve(name)
                assert (gpu.profile, gpu.num_cu) == (profile, product.num_cu)
                assert gpu.warnings == ()


@settings(deadline=None)
@given(st.sampled_from(sorted(load_profiles())), st.integers(1, 1024), st.booleans())
def test_basenames_round_trip(arch: str, num_cu: int, xnack: bool) -> None:
    feature = ":xnack+" if xnack and "xnack" in load_profiles()[arch].features else ""
    gpu = resolve(f"{arch}{feature}/{num_cu}")
    again = resolve(expected_basename(gpu))
    assert (again.target, again.num_cu) == (gpu.target, num_cu)


@settings(deadline=None)
@given(st.text(max_size=40) | st.from_regex(r"gfx[0-9a-f:_+/-]{0,20}"))
def test_any_text_gives_a_gpu_or_our_error(name: str) -> None:
    try:
        gpu = resolve(name)
    except KdbforgeError:
        return
    assert 1 <= gpu.num_cu <= 1024
