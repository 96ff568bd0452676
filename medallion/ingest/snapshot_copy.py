"""Copy the snapshot of a source that is not a folder, so that Spark can read it."""

from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import PurePosixPath

from medallion.errors import MedallionError
from medallion.ingest.source import Advance, Source, copy_file, no_progress
from medallion.storage import files, s3
from medallion.storage.files import Place


def copy_snapshot(source: Source, path: str, target: Place, advance: Advance = no_progress) -> None:
    """Copy a snapshot, the folder ``path`` of a source, to the folder ``target``, whole or not at all.

    Several files are copied at a time. Files of an interrupted copy are kept, and the next one copies the rest.
    advance: called with what is copied, and how many of how many files are copied.
    """
    prefix = f"{path}/"
    partial = target.with_name(f".{target.name}.part")
    sizes = {name: file.bytes for name, file in source.list_files(prefix).items()}
    if not sizes:
        raise MedallionError(f"{source.root} has no {prefix}: the snapshot needs all tables")
    if outside := [name for name in sizes if ".." in PurePosixPath(name).parts]:
        raise MedallionError(f"{source.root}/{outside[0]} leads out of the snapshot: it is not read")
    here = {str(place): place.stat().st_size for place in partial.rglob("*") if place.is_file()}
    places = {name: partial / name.removeprefix(prefix) for name in sizes}
    missing = sorted(name for name, place in places.items() if here.get(str(place)) != sizes[name])
    with ThreadPoolExecutor(s3.AT_ONCE) as pool:
        copies = [pool.submit(copy_file, source, name, places[name]) for name in missing]
        try:
            for number, copy in enumerate(as_completed(copies)):
                copy.result()
                advance(f"copying {path}", len(sizes) - len(missing) + number + 1, len(sizes))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    files.remove_tree(target)
    files.move(partial, target)
