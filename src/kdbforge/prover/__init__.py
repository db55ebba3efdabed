"""Replays problems with the built databases installed and the compiler forbidden."""
