"""What a message tells its reader to do next, as a command and as its way in Airflow: both readers see one message."""

from collections.abc import Sequence


def refresh(hour: str | None = None) -> str:
    """Say how to refresh ``hour``; without it, the next pending one."""
    command = "run medallion refresh" + (f" --hour {hour}" if hour else "")
    return f"{command} (in Airflow: trigger hourly_refresh{f' with Hour {hour}' if hour else ''})"


def refresh_all_tables() -> str:
    """Say how to refresh the tables that a selection left behind."""
    return (
        "run medallion refresh without --select (in Airflow: trigger hourly_refresh, Hour and Select empty) to catch up"
    )


def reprocess() -> str:
    """Say how tables whose definition changed are rebuilt at the published hour."""
    return (
        "run medallion reprocess to rebuild them now (in Airflow: trigger hourly_refresh with Action reprocess);"
        " the next hour does too"
    )


def refresh_from_table(names: Sequence[str]) -> str:
    """Say how to go on with tables whose refresh failed, and what reads them."""
    selected = ",".join(f"{name}+" for name in names)
    return f"run medallion refresh --select {selected} to go on (in Airflow: clear the failed task)"


def refresh_range(first: str, last: str) -> str:
    """Say how to refresh several hours before another."""
    command = f"run medallion refresh --from-hour {first} --to-hour {last} first"
    return f"{command} (in Airflow: backfill hourly_refresh over these hours)"


def apply_pending(first: str, last: str) -> str:
    """Say how to apply pending hours that nobody takes by itself."""
    return f"run medallion refresh --to-hour {last} (in Airflow: backfill hourly_refresh from {first} to {last})"


def finish_restatement(until: str) -> str:
    """Say how to go on with a restatement that was cut short."""
    return f"run medallion refresh --to-hour {until} to finish it (in Airflow: trigger hourly_refresh, Hour empty)"


def restate(hour: str) -> str:
    """Say how to restate from ``hour``."""
    form = f"trigger hourly_refresh with Action restate, {hour} in Hour and Confirmation"
    return f"run medallion refresh --restate {hour} (in Airflow: {form})"


def recompute(table: str) -> str:
    """Say how a computed table that somebody changed is recomputed."""
    layer = table.removeprefix("quarantine_").partition("_")[0]
    return f"run medallion refresh (in Airflow: clear the task {layer}.refresh of its run) to recompute it"


def adopt_or_discard(table: str, version: int | None, hour: str | None) -> str:
    """Say the ways out for a table that somebody changed.

    version: of the last commit of ours, if any is known. hour: the last one applied, if any.
    """
    ways = [f"medallion adopt {table} keeps the change"]
    if version is not None:
        ways.append(f"medallion discard {table} goes back to version {version}")
    if hour is not None:
        ways.append(f"medallion refresh --restate {hour} restores the table to before that hour and applies it again")
    return "; ".join(ways)


def recover_red_hour(first: str, last: str) -> str:
    """Say how hours whose check failed get published, by what was at fault."""
    return (
        f"If the source was at fault, correct its files and {restate(first)}."
        f" If a rule or the code was, correct it and {refresh(last)}"
    )


def land_again(hour: str) -> str:
    """Say how to land ``hour``."""
    return f"run medallion step land --hour {hour} again (in Airflow: clear the task land_changes of its run)"


def check_again(layer: str) -> str:
    """Say how to check ``layer`` again."""
    return f"medallion step check --layer {layer} (in Airflow: clear the task {layer}.check)"


def see_status() -> str:
    """Say where the state of the lake is shown."""
    return "see medallion status (in Airflow: Browse, Lakehouse)"


def see_quarantine() -> str:
    """Say where rejected lines are shown."""
    return "see medallion quarantine list (in Airflow: Browse, Quarantine)"


def see_rejected_lines(topic: str, hour: str) -> str:
    """Say where the rejected lines of an hour of ``topic`` are shown and corrected."""
    return f"what medallion quarantine show {topic} --hour {hour} shows (in Airflow: Browse, Quarantine)"


def build_data_docs() -> str:
    """Say how Data Docs are built once more."""
    return "medallion data-docs builds them (in Airflow: so does the next run)"


def end_erasure() -> str:
    """How an erasure that was cut short is ended."""
    return "run medallion erase to end it (in Airflow: trigger erase, with no file of subjects)"
