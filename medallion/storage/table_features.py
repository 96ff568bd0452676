"""Table features that somebody switched on: what delta-rs cannot read or write is left to Spark."""

from typing import TYPE_CHECKING

from medallion.errors import MedallionError

if TYPE_CHECKING:
    from deltalake import DeltaTable

# Writer features that delta-rs commits to, and reader features that all readers here follow.
_WRITTEN_HERE = frozenset(
    ("appendOnly", "invariants", "checkConstraints", "changeDataFeed", "generatedColumns", "columnMapping")
) | {"deletionVectors", "timestampNtz", "v2Checkpoint"}
_READ_HERE = frozenset({"deletionVectors", "timestampNtz"})
# What Delta on Spark knows besides.
_KNOWN_TO_SPARK = _WRITTEN_HERE | {
    *("allowColumnDefaults", "checkpointProtection", "clustering", "domainMetadata", "identityColumns"),
    *("inCommitTimestamp", "rowTracking", "typeWidening", "typeWidening-preview", "vacuumProtocolCheck"),
    *("icebergCompatV1", "icebergCompatV2", "variantType", "variantType-preview"),
}


def unwritable_here(delta: "DeltaTable") -> frozenset[str]:
    """Return the features of a table that delta-rs does not write."""
    return frozenset(delta.protocol().writer_features or ()) - _WRITTEN_HERE


def unreadable_here(delta: "DeltaTable") -> frozenset[str]:
    """Return the features of a table with which its rows cannot be read from its files here."""
    protocol = delta.protocol()
    if protocol.min_reader_version == 2:
        return frozenset({"columnMapping"})
    return frozenset(protocol.reader_features or ()) - _READ_HERE


def features_for_spark(delta: "DeltaTable") -> str:
    """Name the features for which Spark reads and writes a table; empty where this process does."""
    return ", ".join(sorted(unwritable_here(delta) | unreadable_here(delta)))


def note_of(delta: "DeltaTable") -> str | None:
    """Say that a table is written by Spark for its features; None where it is not."""
    names = features_for_spark(delta)
    return f"read and written by Spark, which takes longer: somebody switched on {names}" if names else None


def require_known_features(table: str, path: str, delta: "DeltaTable") -> None:
    """Raise MedallionError, with the way back, for a feature that neither delta-rs nor Spark knows here."""
    protocol = delta.protocol()
    names = {*(protocol.writer_features or ()), *(protocol.reader_features or ())} - _KNOWN_TO_SPARK
    if names:
        raise MedallionError(f"{table} has {_drop(path, names)}")


def require_writable_here(table: str, path: str, delta: "DeltaTable") -> None:
    """Raise MedallionError, with the way back, for a feature of a table that this process alone writes."""
    if names := unwritable_here(delta):
        raise MedallionError(f"{table} cannot be written with {_drop(path, names)}")


def _drop(path: str, names: "set[str] | frozenset[str]") -> str:
    first, *more = sorted(names)
    statement = f"ALTER TABLE delta.`{path}` DROP FEATURE {first}"
    others = f", and likewise {', '.join(more)}" if more else ""
    return (
        f"the table feature {', '.join([first, *more])}, which somebody switched on and nothing here knows how to"
        f" write; nothing was written: have it dropped by the program that switched it on: {statement}{others}"
    )
