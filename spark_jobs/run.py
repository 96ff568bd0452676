"""What spark-submit runs: the same commands as ``medallion``, inside a session it has configured."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from medallion.cli.main import main

main()
