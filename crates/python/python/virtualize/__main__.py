"""The command ``virtualize``."""

import signal
import sys

from virtualize import _virtualize


def main() -> int:
    """Run the command with the arguments of the process, and return its exit status."""
    # Python's handler would run only after the command has returned.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return _virtualize.command(sys.argv)


if __name__ == "__main__":
    sys.exit(main())
