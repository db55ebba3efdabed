"""AMDGPU code objects: what they were compiled for, and whether they would load.

Reads them only; nothing here compiles or changes one.
"""
