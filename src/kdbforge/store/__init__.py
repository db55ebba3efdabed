"""Content-addressed results of compile jobs, shared by all builds of a user."""

from kdbforge.store.entry import StoreEntry
from kdbforge.store.store import Seen, Store, StoreStats

__all__ = ["Seen", "Store", "StoreEntry", "StoreStats"]
