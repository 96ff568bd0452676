"""``python -m medallion`` is the command ``medallion``."""

from medallion.cli.main import main

if __name__ == "__main__":
    main()
