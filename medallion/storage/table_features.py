"""Table features that somebody switched on: Spark reads and writes tables with features that delta-rs lacks."""

from typing import TYPE_CHECKING

from medallion.errors import MedallionError

if TYPE_CHECKING:
    from deltalake import DeltaTable

# Writer features with which delta-rs can commit, and reader features that all readers here support.
_WRITTEN_HERE = frozenset(
    ("appendOnly", "invariants", "checkConstraints", "changeDataFeed", "generatedColumns", "columnMapping")
) | {"deletionVectors", "timestampNtz", "v2Checkpoint"}
_READ_HERE = frozenset({"deletionVectors", "timestampNtz"})
# Features that Delta on Spark supports.
_KNOWN_TO_SPARK = _WRITTEN_HERE | {
    *("allowColumnDefaults", "checkpointProtection", "clustering", "domainMetadata", "identityColumns"),
    *("inCommitTimestamp", "rowTracking", "typeWidening", "typeWidening-preview", "vacuumProtocolCheck"),
    *("icebergCompatV1", "icebergCompatV2", "variantType", "variantType-preview"),
}


def unwritable_here(delta: "DeltaTable") -> frozenset[str]:
    """Return the features of a table with which delta-rs cannot write it."""
    return frozenset(delta.protocol().writer_features or ()) - _WRITTEN_HERE


def unreadable_here(delta: "DeltaTable") -> frozenset[str]:
    """Return the features of a table with which its rows cannot be read from its files without Spark."""
    protocol = delta.protocol()
    if protocol.min_reader_version == 2:
        return frozenset({"columnMapping"})
    return frozenset(protocol.reader_features or ()) - _READ_HERE


def features_for_spark(delta: "DeltaTable") -> str:
    """Name the features for which Spark must read and write a table; empty if this process can."""
    return ", ".join(sorted(unwritable_here(delta) | unreadable_here(delta)))


def note_of(delta: "DeltaTable") -> str | None:
    """Say that Spark reads and writes a table because of its features; None if it need not."""
    names = features_for_spark(delta)
    return f"read and written by Spark, which takes longer: somebody switched on {names}" if names else None


def require_known_features(table: str, path: str, delta: "DeltaTable") -> None:
    """Raise MedallionError, with a remedy, for a feature that neither delta-rs nor Spark supports here."""
    protocol = delta.protocol()
    names = {*(protocol.writer_features or ()), *(protocol.reader_features or ())} - _KNOWN_TO_SPARK
    if names:
        raise MedallionError(f"{table} has {_drop(path, names)}")


def require_writable_here(table: str, path: str, delta: "DeltaTable") -> None:
    """Raise MedallionError, with a remedy, for a table that Spark never writes, if delta-rs cannot write it either."""
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
