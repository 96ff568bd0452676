"""The medallion command over some of the tables: ``main`` reads their names up to ``--``, then the command."""

import sys
from unittest.mock import patch


def main() -> None:
    """Run it."""
    from medallion.cli import main
    from medallion.model import registry

    split = sys.argv.index("--")
    names = set(sys.argv[1:split])
    every = registry.registry()
    some = registry.Registry({table.name: table for table in every if table.name in names})
    sys.argv[1:] = sys.argv[split + 1 :]
    with patch("medallion.pipeline.driver.tables_of", lambda *_: some):
        main.main()
