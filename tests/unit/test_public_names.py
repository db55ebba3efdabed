"""`import kdbforge` is cheap, and all that it offers is there when it is asked for."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module

import pytest

import kdbforge


@pytest.mark.parametrize("name", kdbforge.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(kdbforge, name) is not None
    assert name in dir(kdbforge)


def test_a_wrong_name_is_an_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'builder'"):
        _ = kdbforge.builder
    with pytest.raises(ImportError):
        from kdbforge import builder  # noqa: F401


def test_build_stays_the_function_once_its_module_is_imported() -> None:
    module = import_module("kdbforge.build")
    assert kdbforge.build is import_module("kdbforge.api").build
    assert module.BuildOptions is kdbforge.BuildOptions
    # In a fresh process the module may come first, by way of another one.
    script = "import kdbforge.build, kdbforge; from kdbforge import build; build.__code__"
    subprocess.run([sys.executable, "-c", script], check=True)


def test_importing_the_package_imports_nothing_of_it() -> None:
    script = "import sys, kdbforge; print(*(m for m in sys.modules if m.startswith('kdbforge')))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    assert done.stdout == b"kdbforge\n"
