"""`python -m kdbforge` is the `kdbforge` command."""

from kdbforge.cli.main import main

if __name__ == "__main__":
    main()
