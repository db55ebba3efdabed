"""Policies: which of MIOpen's ways of asking for kernels a plan covers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from kdbforge.errors import UnknownNameError

__all__ = ["POLICIES", "Policy", "find_policy"]


@dataclass(frozen=True, slots=True)
class Policy:
    """The calls made for each problem, in an order in which none changes what a later one asks.

    Immediate mode and Find in FAST mode record nothing, Find in other modes writes the user
    find-db, so those come last.
    """

    name: str
    summary: str
    calls: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    shared: Mapping[str, str] = field(default_factory=dict)  # that the user's programs have, too

    def with_variables(self, variables: Mapping[str, str]) -> Policy:
        """The same for users who set these variables of MIOpen whenever they run it."""
        return replace(self, shared={**self.shared, **variables})

    @property
    def variables(self) -> dict[str, str]:
        """All that MIOpen is run with."""
        return {**self.environment, **self.shared}


POLICIES = {
    policy.name: policy
    for policy in (
        Policy(
            "default",
            "Find in its default and FAST modes, and immediate mode, with the system find-db",
            ("immediate", "find-fast", "find"),
        ),
        Policy(
            "normal",
            "MIOPEN_FIND_MODE=NORMAL, as PyTorch's benchmark=True asks for (without tuning)",
            ("find-normal",),
        ),
        Policy(
            "all",
            "NORMAL with the find-db ignored, and every solution of immediate mode",
            ("immediate-all", "find-normal"),
            {"MIOPEN_DEBUG_DISABLE_FIND_DB": "1"},
        ),
    )
}


def find_policy(name: str) -> Policy:
    """The policy of that name.

    Raises
    ------
    UnknownNameError
        If there is none.
    """
    if name not in POLICIES:
        raise UnknownNameError("policy", name, POLICIES, hint=f"one of {', '.join(POLICIES)}")
    return POLICIES[name]
