"""Turn errors of a bucket's service into one line with a remedy."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from medallion.errors import MedallionError

LAKE, SOURCE = "MEDALLION_LAKE", "MEDALLION_SOURCE"  # the setting that names the bucket
_CREDENTIALS = {
    LAKE: "; it needs credentials that its policy lets in, in the environment or where AWS's own tools look for them",
    SOURCE: "; a public bucket needs MEDALLION_S3_ANONYMOUS=true, another one credentials that its policy lets in",
}
_DENIED = frozenset({"AccessDenied", "403", "InvalidAccessKeyId", "SignatureDoesNotMatch"})
_BUSY = frozenset({"SlowDown", "ServiceUnavailable", "503"})


class Missing(MedallionError, FileNotFoundError):
    """The object does not exist."""


@contextmanager
def explained(what: str, setting: str) -> Iterator[None]:
    """Turn errors of the service into one line that begins with ``what`` and ends with advice.

    setting: the setting that names the bucket. Raises Missing if the object does not exist, MedallionError otherwise.
    """
    from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError, PartialCredentialsError

    try:
        yield
    except ClientError as error:
        code = error.response["Error"]["Code"]
        kind = Missing if code in {"NoSuchKey", "404"} else MedallionError
        raise kind(f"{what}: the server answered {code}{_advice(code, setting)}") from None
    except (NoCredentialsError, PartialCredentialsError):
        raise MedallionError(f"{what}: no credentials were found{_CREDENTIALS[setting]}") from None
    except BotoCoreError as error:
        reason = " ".join(str(error).split())[:300]
        raise MedallionError(f"{what}: {reason}; see MEDALLION_S3_ENDPOINT and the network, then run again") from None


def short_reason(error: Exception) -> str:
    """Return an error of delta-rs in one line: the error code of the service if it has one."""
    if code := re.search(r"<Code>(\w+)</Code>", str(error)):
        return f"the server answered {code[1]}{_advice(code[1], LAKE)}"
    lines = [re.sub(r"\x1b\[[0-9;]*m|↳", "", line).strip() for line in str(error).splitlines()]
    return ": ".join(filter(None, lines))[:300]


def _advice(code: str, setting: str) -> str:
    if code in _DENIED:
        return _CREDENTIALS[setting]
    if code in _BUSY:
        return "; it is busy: run again later"
    if code == "PermanentRedirect":
        return "; the bucket is in another region: set MEDALLION_S3_REGION"
    if code == "NoSuchBucket":
        return f"; see {setting}, and MEDALLION_S3_ENDPOINT for a server of your own"
    return ""
