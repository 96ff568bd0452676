"""Nations. One row per n_nationkey."""

from medallion import Feed

TABLE = Feed(
    keys=("n_nationkey",),
    schema="""
        n_nationkey INT NOT NULL,
        n_name STRING,
        n_regionkey INT,
        n_comment STRING
    """,
)
