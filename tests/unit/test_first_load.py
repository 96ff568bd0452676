"""The store that comes with the containers is given a demo source, once."""

from typing import Any

from medallion.ingest.source import open_source
from medallion.settings import Settings
from scripts.first_load import UNFINISHED, fill


def test_empty_store_is_given_a_demo_source_and_a_filled_one_is_left_alone(lake_bucket: Any) -> None:
    source: Any = open_source(Settings.from_environment().replace(source="s3://lakes/shop"))
    lake_bucket.put_object(Key=f"shop/{UNFINISHED}")  # a first load that was cut short
    fill(source, 0.01)
    files = source.list_files("")
    assert UNFINISHED not in files
    assert {"snapshot", "cdc"} <= {name.partition("/")[0] for name in files}
    lake_bucket.delete_objects(Delete={"Objects": [{"Key": f"shop/{name}"} for name in files if name[0] == "s"]})
    fill(source, 0.01)
    assert not [name for name in source.list_files("") if name[0] == "s"], "files of its own stay as they are"
