"""Load the lake of the containers for the first time; nothing to do where it has a release.

The S3 store that comes with the stack begins empty: it is given the demo source.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from urllib.parse import urlsplit

from demo.generate import generate
from medallion.ingest.source import S3Source, open_source
from medallion.ops import releases
from medallion.project import find_project
from medallion.storage.lake import Lake

BUNDLED = "http://s3:8333"
UNFINISHED = "unfinished"  # exists while the demo source is being copied


def main() -> None:
    """Fill the bundled store if it is empty, load the lake if it is not."""
    settings = find_project().settings()
    if releases.latest(Lake(settings.lake)) is not None:
        print("the lake is loaded already")
        return
    source = open_source(settings)
    if settings.s3_endpoint == BUNDLED and isinstance(source, S3Source):
        fill(source, float(os.environ.get("MEDALLION_DEMO_SCALE") or 1))
    sys.exit(subprocess.run(["medallion", "load"]).returncode)


def fill(source: S3Source, scale: float) -> None:
    """Copy a demo source of that scale to ``source``, unless it has files of its own."""
    place = urlsplit(source.root)
    bucket, prefix = place.netloc, place.path.strip("/")
    if bucket not in {entry["Name"] for entry in source.client.list_buckets()["Buckets"]}:
        source.client.create_bucket(Bucket=bucket)
    existing = source.list_files("")
    if existing and UNFINISHED not in existing:
        return
    print(f"copying a demo source to {source.root}", flush=True)
    start = f"{prefix}/" if prefix else ""
    source.client.put_object(Bucket=bucket, Key=start + UNFINISHED)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "source")
        generate(root, days=7, hours=24, scale=scale, seed=0)
        for file in root.rglob("*"):
            if file.is_file():
                source.client.upload_file(str(file), bucket, start + file.relative_to(root).as_posix())
    source.client.delete_object(Bucket=bucket, Key=start + UNFINISHED)


if __name__ == "__main__":
    main()
