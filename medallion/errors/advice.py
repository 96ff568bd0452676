"""The next step that a message recommends, both as a command and as an action in Airflow, for readers of either."""

from collections.abc import Sequence


def refresh(hour: str | None = None) -> str:
    """Say how to refresh ``hour``, or the next pending hour if it is None."""
    command = "run medallion refresh" + (f" --hour {hour}" if hour else "")
    return f"{command} (in Airflow: trigger hourly_refresh{f' with Hour {hour}' if hour else ''})"


def refresh_all_tables() -> str:
    """Say how to refresh the tables that an earlier ``--select`` left out."""
    return (
        "run medallion refresh without --select (in Airflow: trigger hourly_refresh, Hour and Select empty) to catch up"
    )


def reprocess() -> str:
    """Say how to rebuild tables whose definition changed, at the published hour."""
    return (
        "run medallion reprocess to rebuild them now (in Airflow: trigger hourly_refresh with Action reprocess, the"
        " published hour in Hour and Confirmation); the next hour does too"
    )


def refresh_from_table(names: Sequence[str]) -> str:
    """Say how to resume with the tables whose refresh failed and the tables that read them."""
    selected = ",".join(f"{name}+" for name in names)
    return f"run medallion refresh --select {selected} to go on (in Airflow: clear the failed task)"


def refresh_range(first: str, last: str) -> str:
    """Say how to refresh the missing hours that must precede another hour."""
    command = f"run medallion refresh --from-hour {first} --to-hour {last} first"
    return f"{command} (in Airflow: backfill hourly_refresh over these hours)"


def apply_pending(first: str, last: str) -> str:
    """Say how to apply pending hours that the schedule does not catch up on its own."""
    return f"run medallion refresh --to-hour {last} (in Airflow: backfill hourly_refresh from {first} to {last})"


def finish_restatement(until: str) -> str:
    """Say how to finish a restatement that was interrupted."""
    return f"run medallion refresh --to-hour {until} to finish it (in Airflow: trigger hourly_refresh, Hour empty)"


def restate(hour: str) -> str:
    """Say how to restate from ``hour``."""
    form = f"trigger hourly_refresh with Action restate, {hour} in Hour and Confirmation"
    return f"run medallion refresh --restate {hour} (in Airflow: {form})"


def recompute(table: str) -> str:
    """Say how to recompute a computed table that another writer changed."""
    layer = table.removeprefix("quarantine_").partition("_")[0]
    return f"run medallion refresh (in Airflow: clear the task {layer}.refresh of its run) to recompute it"


def adopt_or_discard(table: str, version: int | None, hour: str | None) -> str:
    """List the ways to resolve a change that another writer made to a table.

    version: the version of our last commit, if known. hour: the last hour applied, if any.
    """
    ways = [f"medallion adopt {table} keeps the change"]
    if version is not None:
        ways.append(f"medallion discard {table} goes back to version {version}")
    if hour is not None:
        ways.append(f"medallion refresh --restate {hour} restores the table to before that hour and applies it again")
    return "; ".join(ways)


def recover_red_hour(first: str, last: str) -> str:
    """Say how to publish hours whose check failed, depending on what was at fault."""
    return (
        "If the source was at fault, have it deliver corrected files (a file that it withdraws is applied as it landed)"
        f" and {restate(first)}."
        f" If a rule or the code was, correct it and {refresh(last)}"
    )


def land_again(hour: str) -> str:
    """Say how to land ``hour`` again."""
    return f"run medallion step land --hour {hour} again (in Airflow: clear the task land_changes of its run)"


def check_again(layer: str, hour: str | None) -> str:
    """Say how to check ``layer`` again, of an hour or of the snapshot."""
    of_hour = f" --hour {hour}" if hour else ""
    return f"medallion step check --layer {layer}{of_hour} (in Airflow: clear the task {layer}.check)"


def see_status() -> str:
    """Say where to see the state of the lake."""
    return "see medallion status (in Airflow: Browse, Lakehouse)"


def see_quarantine() -> str:
    """Say where to see rejected lines."""
    return "see medallion quarantine list (in Airflow: Browse, Quarantine)"


def see_rejected_lines(topic: str, hour: str) -> str:
    """Name the rejected lines of ``topic`` in ``hour`` by where they are shown, to end a sentence with "correct"."""
    return f"what medallion quarantine show {topic} --hour {hour} shows (in Airflow: Browse, Quarantine)"


def build_data_docs() -> str:
    """Say how to rebuild Data Docs."""
    return "medallion data-docs builds them (in Airflow: so does the next run)"


def name_subjects() -> str:
    """Say how to name the persons to erase."""
    return (
        "run medallion erase with --subject-file, which has one on each line"
        " (in Airflow: trigger erase with subjects_file or subjects_variable)"
    )


def end_erasure() -> str:
    """Say how to finish an erasure that was interrupted."""
    return "run medallion erase to finish it (in Airflow: trigger erase, with an empty form)"
