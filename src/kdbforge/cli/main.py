"""The `kdbforge` command: its groups, its exit codes, and how errors are shown."""

from __future__ import annotations

import sys

import click

import kdbforge
from kdbforge.cli.console import console, print_error
from kdbforge.cli.lazy import LazyGroup
from kdbforge.cli.options import Settings, common_options
from kdbforge.errors import KdbforgeError

__all__ = ["cli", "main"]

INTERRUPTED = 130

#: Name of each command -> where it is, and the first line of its help.
COMMANDS = {
    "build": (
        "kdbforge.cli.flow:build",
        "Build and prove a kernel database for every GPU.",
    ),
    "compile": (
        "kdbforge.cli.flow:compile_",
        "Compile what the store lacks of a plan's jobs.",
    ),
    "doctor": (
        "kdbforge.cli.doctor:doctor",
        "Say which kernel databases every libMIOpen here opens, and why it would find none.",
    ),
    "gpu": (
        "kdbforge.cli.gpu:gpu",
        "Known GPUs and their device profiles.",
    ),
    "install": (
        "kdbforge.cli.install:install_",
        "Put kernel databases, with their manifests, where libMIOpen looks for them.",
    ),
    "kdb": (
        "kdbforge.cli.kdb:kdb",
        "Look into kernel databases, check and change them.",
    ),
    "keygen": (
        "kdbforge.cli.package:keygen",
        "Make a key to sign with: the secret one into a file, the public one beside it.",
    ),
    "log": (
        "kdbforge.cli.flow:log",
        "Show what the compiler said about a job; JOB is its key or the start of it.",
    ),
    "package": (
        "kdbforge.cli.package:package",
        "Packages of databases, one for each architecture, for others to install.",
    ),
    "plan": (
        "kdbforge.cli.flow:plan",
        "Find out what MIOpen would compile, without compiling it.",
    ),
    "problems": (
        "kdbforge.cli.problems:problems",
        "List the problems in driver lines, logs, networks and suites.",
    ),
    "prove": (
        "kdbforge.cli.flow:prove",
        "Replay problems with databases installed and the compiler forbidden.",
    ),
    "run": (
        "kdbforge.cli.run:run",
        "Run a program on virtual GPUs: no kernel runs, and nothing else is different.",
    ),
    "sign": (
        "kdbforge.cli.package:sign",
        "Sign databases: each FILE is a database, its manifest, or a folder of them.",
    ),
    "toolchain": (
        "kdbforge.cli.toolchain:toolchain",
        "The MIOpens to build for: fetched ones and installed ones.",
    ),
    "uninstall": (
        "kdbforge.cli.install:uninstall_",
        "Remove databases that `kdbforge install` wrote, and restore what was there before.",
    ),
    "verify-signature": (
        "kdbforge.cli.package:verify_signature",
        "Check who signed databases, and that they are what was signed.",
    ),
}


@click.group(
    cls=LazyGroup, table=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.version_option(kdbforge.__version__, prog_name="kdbforge")
@common_options
def cli(settings: Settings) -> None:
    """Build MIOpen kernel databases for AMD GPUs that are not in the machine.

    \b
    Example:
      kdbforge toolchain fetch
      kdbforge build suite:resnet50 --gpu gfx1030_40 -o out
    """


def main() -> None:
    """Run the command line; exit code 0 yes, 1 no or partial, 2 error, 130 interrupted."""
    try:
        code = cli.main(standalone_mode=False)
    except KdbforgeError as error:
        console.quiet = False  # -q silences all but errors
        print_error(error)
        code = error.exit_code
    except click.ClickException as error:
        error.show()
        code = 2
    except (click.Abort, KeyboardInterrupt):
        console.print("interrupted; finished work is kept")
        code = INTERRUPTED
    except BrokenPipeError:
        # The reader of our output went away, as `| head` does.
        sys.stderr.close()
        code = 1
    sys.exit(code if isinstance(code, int) else 0)
