"""What stays on this machine goes past every proxy, by every client that is used here."""

import urllib.request
from pathlib import Path

import httpx
import pytest

from medallion.loopback import go_past_proxies, past_proxies

DEAD = "http://127.0.0.1:9"  # where no proxy listens


def test_environment_stays_as_it_is_when_no_proxy_is_set() -> None:
    assert past_proxies({"no_proxy": "internal", "PATH": "/bin"}) == {}


@pytest.mark.parametrize("proxy", ["http_proxy", "https_proxy", "all_proxy", "ALL_PROXY", "HTTPS_PROXY", "grpc_proxy"])
def test_loopback_is_added_to_the_exceptions_that_a_shell_has_when_any_proxy_is_set(proxy: str) -> None:
    added = past_proxies({proxy: DEAD, "NO_PROXY": "internal, .example.org"})
    assert added["no_proxy"] == added["NO_PROXY"] == "internal,.example.org,localhost,127.0.0.1,::1"
    assert added["no_grpc_proxy"] == added["no_proxy"]


def test_exception_of_everything_stays_alone_and_grpc_is_told_by_name() -> None:
    added = past_proxies({"http_proxy": DEAD, "no_proxy": "*"})
    assert added == {"no_proxy": "*", "NO_PROXY": "*", "no_grpc_proxy": "localhost,127.0.0.1,::1"}


def test_exceptions_of_grpc_are_kept_when_they_are_set() -> None:
    assert past_proxies({"http_proxy": DEAD, "no_grpc_proxy": "collector"})["no_grpc_proxy"].startswith("collector,loc")


@pytest.mark.parametrize("exceptions", [None, "", "internal"])
def test_clients_reach_this_machine_when_the_proxy_of_the_shell_is_dead(
    exceptions: str | None, s3_server: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import boto3
    import pyarrow as pa
    import requests
    from deltalake import DeltaTable, write_deltalake

    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, DEAD)
    for name in ("no_proxy", "NO_PROXY", "no_grpc_proxy"):
        monkeypatch.delenv(name, raising=False)
        if exceptions is not None:
            monkeypatch.setenv(name, exceptions)
    go_past_proxies()
    for host in (s3_server, s3_server.replace("127.0.0.1", "localhost")):
        assert httpx.get(host).status_code == requests.get(host).status_code == 200
        assert urllib.request.urlopen(host).status == 200
    client = boto3.client(
        "s3", endpoint_url=s3_server, region_name="us-east-1", aws_access_key_id="x", aws_secret_access_key="y"
    )
    client.create_bucket(Bucket="past-proxies")
    options = {"AWS_ENDPOINT_URL": s3_server, "AWS_REGION": "us-east-1", "AWS_ALLOW_HTTP": "true"}
    options |= {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "y", "AWS_CONDITIONAL_PUT": "etag"}
    write_deltalake("s3://past-proxies/t", pa.table({"n": [1]}), mode="overwrite", storage_options=options)
    assert DeltaTable("s3://past-proxies/t", storage_options=options).version() >= 0
