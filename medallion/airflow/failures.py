"""What errors of the pipeline mean to the scheduler."""

from collections.abc import Iterator
from contextlib import contextmanager

from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException

from medallion.airflow.runs import RequestRefused
from medallion.errors import CheckFailed, HourNotAvailable, HourOutOfOrder, MedallionError, UsageError


@contextmanager
def as_airflow_errors() -> Iterator[None]:
    """What an error of ours means to the scheduler: skip the rest, give up, or try again."""
    try:
        yield
    except HourNotAvailable as error:
        raise AirflowSkipException(str(error)) from None
    except HourOutOfOrder as error:
        raise RequestRefused(str(error)) from None
    except (CheckFailed, UsageError) as error:  # another try would find the same
        raise with_reason(AirflowFailException(str(error)), error.without_data) from None
    except MedallionError as error:
        raise with_reason(AirflowException(str(error)), error.without_data) from None


def with_reason(raised: AirflowException, without_data: str) -> AirflowException:
    """Give an error the reason that alerts name, which quotes no data."""
    vars(raised)["without_data"] = without_data
    return raised
