"""A folder of the lake as a folder of this machine, for what reads and writes files on a disk alone."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from medallion.storage.files import Place, side_by_side
from medallion.storage.s3 import S3Path


@contextmanager
def mirrored(folder: Place) -> Iterator[Path]:
    """Yield ``folder`` as a local folder: itself or, for a bucket, a copy that is uploaded if the block succeeds.

    Only for small folders that a single process writes.
    """
    if not isinstance(folder, S3Path):
        yield folder
        return
    with TemporaryDirectory(prefix="medallion-") as scratch:
        here = Path(scratch)

        def fetch(name: str) -> None:
            local = here / name
            local.parent.mkdir(parents=True, exist_ok=True)
            local.write_bytes((folder / name).read_bytes())

        side_by_side(fetch, (str(place.relative_to(folder)) for place in folder.rglob("*")))
        before = _as_they_are(here)
        yield here
        after = _as_they_are(here)
        changed = [name for name, state in after.items() if before.get(name) != state]
        side_by_side(lambda name: (folder / name).write_bytes((here / name).read_bytes()), changed)
        side_by_side(lambda name: (folder / name).unlink(), before.keys() - after.keys())


def _as_they_are(folder: Path) -> dict[str, tuple[int, int]]:
    """Return the modification time and size of each file, by name."""
    stats = {file.relative_to(folder).as_posix(): file.stat() for file in folder.rglob("*") if file.is_file()}
    return {name: (stat.st_mtime_ns, stat.st_size) for name, stat in stats.items()}
