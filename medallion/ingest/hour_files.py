"""The paths of an hour's files: at the source, landed, and decoded."""

from medallion.model.table import Feed
from medallion.storage.files import Place
from medallion.storage.lake import Lake


def landed_file(lake: Lake, topic: str, hour: str) -> Place:
    """Return the landing path of the file of ``topic`` and ``hour``."""
    return lake.landing / topic / f"{hour}.json"


def decoded_file(lake: Lake, feed: Feed, hour: str) -> Place:
    """Return the path of the decoded changes of a feed and an hour."""
    return lake.decoded / hour / f"{feed.topic}.parquet"


def source_path(feed: Feed, hour: str) -> str:
    """Return the name of a feed's files of an hour at the source, by its layout; each hour has its own name."""
    layout = feed.delivery.layout
    return layout.path(feed.source_name, hour) + ("" if layout.has_hour else f"@{hour}")
