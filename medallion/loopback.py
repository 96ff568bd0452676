"""Connections to this machine itself bypass any proxy that the shell has set.

HTTP and gRPC clients in Python, Rust and the JVM, and all child processes, read their proxy from the environment, so
setting environment variables is the one way to reach them all.
"""

import os
from collections.abc import Mapping

LOOPBACK = ("localhost", "127.0.0.1", "::1")
_PROXIES = ("http_proxy", "https_proxy", "all_proxy", "grpc_proxy")
_EXCEPTIONS = ("no_proxy", "NO_PROXY")
_GRPC = "no_grpc_proxy"  # if set, gRPC ignores the other variables


def go_past_proxies() -> None:
    """Let this process and its children reach this machine without a proxy. Call it when a process starts."""
    os.environ.update(past_proxies(os.environ))


def past_proxies(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables to set so that local connections bypass the proxy of ``environment``.

    Empty if no proxy is set.
    """
    if not any(value for name, value in environment.items() if name.lower() in _PROXIES):
        return {}
    exceptions = ",".join(filter(None, (environment.get(name, "") for name in _EXCEPTIONS)))
    hosts = _with_loopback(exceptions)
    everything = "*" in exceptions.split(",")  # "*" must be the only entry, and gRPC does not understand it
    grpc = _with_loopback(environment.get(_GRPC, "") or ("" if everything else exceptions))
    return {**dict.fromkeys(_EXCEPTIONS, "*" if everything else hosts), _GRPC: grpc}


def _with_loopback(exceptions: str) -> str:
    given = [host.strip() for host in exceptions.split(",") if host.strip()]
    return ",".join(dict.fromkeys([*given, *LOOPBACK]))
