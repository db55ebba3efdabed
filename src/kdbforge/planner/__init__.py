"""Runs libMIOpen on a virtual GPU and turns what it would compile into a plan."""
