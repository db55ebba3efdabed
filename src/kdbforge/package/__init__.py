"""Turns compiled jobs into the files that are shipped: databases and their manifests."""
