"""Drives the real libMIOpen, in a child process on a virtual GPU."""
