"""Suites: the convolutions of well-known networks, shipped with the package."""

from kdbforge.problems.suites.layers import Layer, Suite
from kdbforge.problems.suites.registry import PREFIX, SUITES, find_suite

__all__ = ["PREFIX", "SUITES", "Layer", "Suite", "find_suite"]
