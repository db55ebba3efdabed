"""Device profiles: refused, or good for the profile file that the native part reads."""

from __future__ import annotations

import random

from kdbforge.errors import InputError
from kdbforge.model.device import Gpu
from kdbforge.model.target import TargetId
from kdbforge.vgpu.profiles import parse_profiles, product_slug, profile_text

_VALUES = (
    *('""', '"x"', '"\\u001b"', '"a\\nb"', "0", "-1", "32", "9" * 30, "1e9", "inf", "nan", "true"),
    *("[]", "{}", '["xnack"]', "[1]", "1979-05-27", "0xff", '"""', "[" * 60, "{a=" * 60),
    *('"gfx1030"', '"gfx90a:xnack+"', "'''", "9" * 5000),
)
TOKENS = (
    *(b"[[profile]]\n", b"[[profile.products]]\n", b"arch = ", b"num_cu = ", b"wave_size = ", b"["),
    *(b"products = ", b"features = ", b"{ name = ", *(value[:60].encode() for value in _VALUES)),
)


def target(data: bytes) -> None:
    try:
        text = data.decode()
        profiles = parse_profiles(text, "fuzz.toml")
    except (InputError, UnicodeDecodeError):
        return
    assert profiles
    for profile in profiles:
        for product in profile.products:
            assert isinstance(product_slug(product), str)
            gpu = Gpu(profile, TargetId(profile.arch), product.num_cu, "")
            lines = profile_text(gpu).splitlines()
            assert len(lines) == 10, "a value ends a line of the profile file"
            assert all("=" in line and line.isprintable() for line in lines)
            # The native part reads these as 64 bits.
            assert 0 < profile.memory_bytes < 1 << 63
            assert 0 < profile.lds_bytes < 1 << 31


def mutate(data: bytes, rng: random.Random) -> bytes:
    """Another value for a key, or a line less, or one twice."""
    lines = data.decode(errors="replace").splitlines(keepends=True)
    if not lines:
        return data
    for _ in range(rng.randint(1, 2)):
        at = rng.randrange(len(lines))
        what = rng.randrange(4)
        if what == 0 and len(lines) > 1:
            lines.pop(at)
        elif what == 1:
            lines.insert(at, rng.choice(lines))
        elif "=" in lines[at]:
            lines[at] = f"{lines[at].partition('=')[0]}= {rng.choice(_VALUES)}\n"
    return "".join(lines).encode()
