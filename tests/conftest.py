"""What holds for all tests."""

from __future__ import annotations

import signal

# Tests send Ctrl-C to their children. A shell starts jobs in the background with it ignored, and
# children inherit that; with a handler set here, they start with the default.
signal.signal(signal.SIGINT, signal.default_int_handler)
