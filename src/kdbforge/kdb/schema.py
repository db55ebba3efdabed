"""The one table of a kernel database, as MIOpen declares it.

From MIOpen src/include/miopen/kern_db.hpp, KernelConfig; the texts are those that SQLite keeps in
sqlite_schema, so that a file of ours and one of MIOpen's have the same schema to the letter.
"""

from __future__ import annotations

__all__ = ["COLUMNS", "CREATE_INDEX", "CREATE_TABLE", "TABLE"]

TABLE = "kern_db"

#: Name, declared type, NOT NULL, position in the primary key.
COLUMNS: tuple[tuple[str, str, int, int], ...] = (
    ("id", "INTEGER", 0, 1),
    ("kernel_name", "TEXT", 1, 0),
    ("kernel_args", "TEXT", 1, 0),
    ("kernel_blob", "BLOB", 1, 0),
    ("kernel_hash", "TEXT", 1, 0),
    ("uncompressed_size", "INT", 1, 0),
)

CREATE_TABLE = (
    "CREATE TABLE `kern_db` (`id` INTEGER PRIMARY KEY ASC,`kernel_name` TEXT NOT NULL,"
    "`kernel_args` TEXT NOT NULL,`kernel_blob` BLOB NOT NULL,`kernel_hash` TEXT NOT NULL,"
    "`uncompressed_size` INT NOT NULL)"
)
CREATE_INDEX = "CREATE UNIQUE INDEX `idx_kern_db` ON kern_db(kernel_name, kernel_args)"
