"""Which call of MIOpen a node becomes, by consumer; one module for each family of operators."""

from kdbforge.problems.onnx.mapping.outcome import Outcome, Wish
from kdbforge.problems.onnx.mapping.table import map_node

__all__ = ["Outcome", "Wish", "map_node"]
