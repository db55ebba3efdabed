"""The `kdbforge` command: its groups, its exit codes, and how errors are shown."""

from __future__ import annotations

import sys

import click

import kdbforge
from kdbforge.cli import flow
from kdbforge.cli.console import console, print_error
from kdbforge.cli.doctor import doctor
from kdbforge.cli.gpu import gpu
from kdbforge.cli.install import install_, uninstall_
from kdbforge.cli.kdb import kdb
from kdbforge.cli.options import Settings, common_options
from kdbforge.cli.package import keygen, package, sign, verify_signature
from kdbforge.cli.problems import problems
from kdbforge.cli.run import run
from kdbforge.cli.toolchain import toolchain
from kdbforge.errors import KdbforgeError

__all__ = ["cli", "main"]

INTERRUPTED = 130


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(kdbforge.__version__, prog_name="kdbforge")
@common_options
def cli(settings: Settings) -> None:
    """Build MIOpen kernel databases for AMD GPUs that are not in the machine.

    \b
    Example:
      kdbforge toolchain fetch
      kdbforge build suite:resnet50 --gpu gfx1030_40 -o out
    """


for command in (
    flow.build, flow.plan, flow.compile_, flow.prove, flow.log, run, problems, gpu, toolchain, kdb,
    install_, uninstall_, doctor,
    package, sign, verify_signature, keygen,
):  # fmt: skip
    cli.add_command(command)


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
