"""The medallion lakehouse: change feeds, tables and the engine that refreshes them."""
