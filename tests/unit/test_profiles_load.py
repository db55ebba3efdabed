"""Device profiles: what is shipped, and that a bad profile file is refused by key."""

from __future__ import annotations

import pytest

from kdbforge.codeobject.elf import _MACHS
from kdbforge.errors import InputError
from kdbforge.vgpu.profiles import load_profiles, parse_profiles, profile_text, resolve

#: Names and CU counts that must be known, as HIP reports them.
REQUIRED = {
    "gfx803": {36, 56, 64},
    "gfx900": {56, 64},
    "gfx906": {60, 64},
    "gfx908": {120},
    "gfx90a": {104, 110},
    "gfx90c": {7},
    "gfx942": {228, 304},
    "gfx950": {256},
    "gfx1010": {18, 20},
    "gfx1011": {18},
    "gfx1012": {11},
    "gfx1030": {30, 36, 40},
    "gfx1031": {18, 20},
    "gfx1032": {14, 16},
    "gfx1034": {6, 8},
    "gfx1035": {6},
    "gfx1036": {1},
    "gfx1100": {35, 40, 42, 48},
    "gfx1101": {24, 27, 30},
    "gfx1102": {16},
    "gfx1103": {6},
    "gfx1150": {8},
    "gfx1151": {20},
    "gfx1152": {4},
    "gfx1153": {1},
    "gfx1200": {16},
    "gfx1201": {28, 32},
}

GOOD = """
[[profile]]
arch = "gfx1030"
wave_size = 32
lds_kib = 64
memory_gib = 16
max_grid_dim_x = 2147483647
cooperative_launch = true
clock_mhz = 2250
memory_clock_mhz = 1000
features = []
wgp = true
source = "a book"
products = [{ name = "Card", num_cu = 40 }]
"""


@pytest.mark.parametrize("arch", REQUIRED)
def test_required_cu_counts_are_known(arch: str) -> None:
    assert set(load_profiles()[arch].num_cus) >= REQUIRED[arch]


def test_every_profile_is_plausible() -> None:
    for arch, profile in load_profiles().items():
        assert profile.arch == arch
        assert arch in _MACHS.values()
        rdna = arch.startswith("gfx1")
        assert profile.wave_size == (32 if rdna else 64)
        assert profile.wgp == rdna
        assert profile.lds_bytes == (160 << 10 if arch == "gfx950" else 64 << 10)
        assert profile.max_grid_dim_x == 2**31 - 1
        assert profile.source


def test_features_are_those_that_a_compiler_accepts() -> None:
    # As tried on hiprtc 7.2: it refuses a target ID that names any other feature.
    both = {"gfx906", "gfx908", "gfx90a", "gfx942", "gfx950"}
    xnack = {"gfx900", "gfx902", "gfx90c", "gfx1010", "gfx1011", "gfx1012"}
    for arch, profile in load_profiles().items():
        if arch in both:
            assert profile.features == ("sramecc", "xnack")
        else:
            assert profile.features == (("xnack",) if arch in xnack else ())


def test_no_architecture_starts_another() -> None:
    # Else a db basename without separator, such as gfx90a68, could mean two things.
    archs = list(load_profiles())
    assert not [(a, b) for a in archs for b in archs if a != b and b.startswith(a)]


def test_profile_text_has_every_key_once() -> None:
    assert profile_text(resolve("gfx90a:sramecc+:xnack-/104")) == (
        "gcn_arch_name=gfx90a:sramecc+:xnack-\n"
        "num_cu=104\n"
        "wave_size=64\n"
        "lds_bytes=65536\n"
        "memory_bytes=68719476736\n"
        "max_grid_dim_x=2147483647\n"
        "cooperative_launch=1\n"
        "clock_khz=1700000\n"
        "memory_clock_khz=1600000\n"
        "product_name=AMD Instinct MI210\n"
    )


def test_profile_text_does_not_depend_on_the_words() -> None:
    assert profile_text(resolve("rx-6950-xt")) == profile_text(resolve("gfx1030_40"))


def test_good_file_is_read() -> None:
    (profile,) = parse_profiles(GOOD, "x.toml")
    assert profile.num_cus == (40,)
    assert profile.memory_bytes == 16 << 30


@pytest.mark.parametrize("key", [line.split(" ")[0] for line in GOOD.splitlines()[2:]])
def test_missing_key_is_named(key: str) -> None:
    text = "\n".join(line for line in GOOD.splitlines() if not line.startswith(f"{key} "))
    with pytest.raises(InputError, match=f"`{key}` is missing") as info:
        parse_profiles(text, "x.toml")
    assert info.value.context == ("x.toml, profile 1",)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("wave_size = 32", "wave_size = 48", "`wave_size` must be 32 or 64"),
        ("wave_size = 32", 'wave_size = "32"', "`wave_size` must be of type int"),
        ("wave_size = 32", "wave_size = 32\nwaves = 1", "Unknown key `waves`"),
        ("lds_kib = 64", "lds_kib = 0", "`lds_kib` has the bad value"),
        ("lds_kib = 64", "lds_kib = true", "`lds_kib` must be of type int"),
        ("wgp = true", "wgp = 1", "`wgp` must be of type bool"),
        ("features = []", 'features = ["wgp"]', "`features`"),
        ("features = []", "features = [1]", "`features`"),
        ('"gfx1030"', '"gfx1030:xnack+"', "must name no feature"),
        ('"gfx1030"', '"navi"', "not a target ID"),
        ('source = "a book"', 'source = ""', "`source` has the bad value"),
        ('name = "Card"', 'name = "Ca\\nrd"', "`name` has the bad value"),
        ("num_cu = 40", "num_cu = 1025", "above 1024"),
        ('{ name = "Card", num_cu = 40 }', "", "`products` is empty"),
        ('{ name = "Card", num_cu = 40 }', "7", "A table was expected"),
        ("[[profile]]", "[profile]", "`\\[\\[profile\\]\\]` tables only"),
        ("[[profile]]", "x = 1\n[[profile]]", "`x`"),
        ("[[profile]]", "[[profile", "not valid TOML"),
    ],
)
def test_bad_value_is_named(old: str, new: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_profiles(GOOD.replace(old, new), "x.toml")
