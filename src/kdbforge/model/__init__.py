"""The values that flow through kdbforge: frozen dataclasses without I/O."""
