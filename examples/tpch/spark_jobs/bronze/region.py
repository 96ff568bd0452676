"""Regions of the world. One row per r_regionkey."""

from medallion import Feed

TABLE = Feed(
    keys=("r_regionkey",),
    schema="""
        r_regionkey INT NOT NULL,
        r_name STRING,
        r_comment STRING
    """,
)
