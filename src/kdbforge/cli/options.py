"""Options and arguments that several commands share."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import click

from kdbforge.cli.console import console
from kdbforge.model.policy import POLICIES, Policy, find_policy

__all__ = ["Settings", "common_options", "gpu_option", "jobs_option", "policy_options"]

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Settings:
    """What the global options say; they may stand before or behind the command."""

    store: Path | None = None
    store_size: float | None = None
    toolchain: str | None = None
    verbose: bool = False
    quiet: bool = False


def common_options(function: F) -> F:
    """Add --store, --store-size, --toolchain, -v, -q; the function gets `settings` first."""

    @click.option("--store", type=click.Path(path_type=Path), help="Folder of compiled objects.")
    @click.option(
        "--store-size",
        type=click.FloatRange(0.001),
        metavar="GB",
        help="Let the store grow to about this size; what was not used for longest goes first.",
    )
    @click.option("--toolchain", metavar="NAME|PATH", help="Which MIOpen to build for.")
    @click.option("-v", "--verbose", is_flag=True, help="List everything, with full logs.")
    @click.option("-q", "--quiet", is_flag=True, help="Say nothing but errors.")
    @functools.wraps(function)
    def wrapper(
        *args: Any,
        store: Path | None,
        store_size: float | None,
        toolchain: str | None,
        verbose: bool,
        quiet: bool,
        **kwargs: Any,
    ) -> Any:
        context = click.get_current_context()
        outer = context.obj if isinstance(context.obj, Settings) else Settings()
        settings = replace(
            outer,
            store=store or outer.store,
            store_size=store_size or outer.store_size,
            toolchain=toolchain or outer.toolchain,
            verbose=verbose or outer.verbose,
            quiet=quiet or outer.quiet,
        )
        console.quiet = settings.quiet
        context.obj = settings
        return function(settings, *args, **kwargs)

    return wrapper  # type: ignore[return-value]


def _pairs(_context: click.Context, option: click.Parameter, words: Sequence[str]) -> Any:
    pairs = [word.partition("=") for word in words]
    for name, equals, _ in pairs:
        if not name or not equals:
            raise click.BadParameter(f"`{name}` is not NAME=VALUE", param=option)
    return {name: value for name, _, value in pairs}


gpu_option = click.option(
    "--gpu", "gpus", multiple=True, required=True, metavar="GPU",
    help="A GPU, by db basename (gfx1030_40), product (rx-6900-xt) or target ID with its CU "
    "count (gfx90a:xnack-/104). May be repeated.",
)  # fmt: skip

_policy_options = (
    click.option(
        "--policy", type=click.Choice(list(POLICIES)), default="default", show_default=True,
        help="Which of MIOpen's ways of asking for kernels to cover.",
    ),
    click.option(
        "--env", "variables", multiple=True, metavar="NAME=VALUE", callback=_pairs,
        help="A variable of MIOpen that the user's programs have set, too, such as "
        "MIOPEN_DEBUG_CONV_FFT=0. May be repeated.",
    ),
)  # fmt: skip


def policy_options(function: F) -> F:
    """Add --policy and --env; the function gets `policy`, which has the variables."""

    @functools.wraps(function)
    def wrapper(*args: Any, policy: str, variables: Mapping[str, str], **kwargs: Any) -> Any:
        used: Policy = find_policy(policy).with_variables(variables)
        return function(*args, policy=used, **kwargs)

    for option in reversed(_policy_options):
        wrapper = option(wrapper)
    return wrapper  # type: ignore[return-value]


jobs_option = click.option(
    "-j", "--jobs", type=click.IntRange(1, 4096), default=os.cpu_count() or 1,
    show_default="all cores", help="How many processes work at once.",
)  # fmt: skip
