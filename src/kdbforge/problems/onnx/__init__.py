"""ONNX files as sources of problems; needs the package `onnx` (extra `onnx`)."""

from kdbforge.problems.onnx.read import Model, check_dims

__all__ = ["Model", "check_dims"]
