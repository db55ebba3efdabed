"""Runs compile jobs in child processes on the real compiler and keeps the results in a store."""

from kdbforge.compiler.pool import compile_jobs
from kdbforge.compiler.report import CompileReport, JobFailure, Progress

__all__ = ["CompileReport", "JobFailure", "Progress", "compile_jobs"]
