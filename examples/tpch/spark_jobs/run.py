"""What spark-submit runs: the same commands as ``medallion``, inside a session it has configured."""

from medallion.cli.main import main

main()
