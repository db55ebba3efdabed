"""Runs any program on virtual GPUs: its MIOpen problems, and the jobs that it would compile."""
