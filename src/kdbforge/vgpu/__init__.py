"""Starts processes on a virtual GPU and reads what they were seen to compile."""
