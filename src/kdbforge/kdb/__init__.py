"""Kernel databases (`.kdb`, `.ukdb`): one SQLite file in the format of MIOpen.

Keys come from MIOpen; nothing here makes one up.
"""
