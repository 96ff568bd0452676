"""Translate errors of the pipeline into errors that Airflow acts on."""

from collections.abc import Iterator
from contextlib import contextmanager

from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException

from medallion.airflow.runs import RequestRefused
from medallion.errors import CheckFailed, HourBeforeFirst, HourNotAvailable, HourOutOfOrder, MedallionError, UsageError


class BeforeFirstHour(AirflowSkipException):
    """The hour of the run is before the first one of the lake: a backfill passes over it."""


@contextmanager
def as_airflow_errors() -> Iterator[None]:
    """Raise an error of the block as one of Airflow's: skip what follows, fail for good, or fail and retry.

    A request that another try would meet with the same refusal fails for good, so that it holds up no other run. So
    does one that must wait for another command, such as the end of an erasure that was cut short.
    """
    try:
        yield
    except HourBeforeFirst as error:
        raise BeforeFirstHour(str(error)) from None
    except HourNotAvailable as error:
        raise AirflowSkipException(str(error)) from None
    except HourOutOfOrder as error:
        raise RequestRefused(str(error)) from None
    except (CheckFailed, UsageError) as error:  # a retry would fail again
        raise with_reason(AirflowFailException(str(error)), error.without_data) from None
    except MedallionError as error:
        raise with_reason(AirflowException(str(error)), error.without_data) from None


def with_reason(raised: AirflowException, without_data: str) -> AirflowException:
    """Attach to an error the reason that alerts report, which quotes no data."""
    vars(raised)["without_data"] = without_data
    return raised
