"""The child that runs problems through libMIOpen's C API on the virtual GPU.

Stdlib only: it is run by the toolchain's own Python, which does not have kdbforge installed.
"""
