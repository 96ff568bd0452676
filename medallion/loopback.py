"""No proxy stands between this machine and itself, whatever a shell has set.

Clients of HTTP and gRPC, in Python, in Rust and in the JVM, find their proxy in the environment, and so do the
processes that are started here: it is the one place that reaches them all.
"""

import os
from collections.abc import Mapping

LOOPBACK = ("localhost", "127.0.0.1", "::1")
_PROXIES = ("http_proxy", "https_proxy", "all_proxy", "grpc_proxy")
_EXCEPTIONS = ("no_proxy", "NO_PROXY")
_GRPC = "no_grpc_proxy"  # where it is set, gRPC looks at none of the others


def go_past_proxies() -> None:
    """Have this process, and those that it starts, reach this machine without a proxy. For where a process begins."""
    os.environ.update(past_proxies(os.environ))


def past_proxies(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables to set so that what stays on this machine goes past the proxy of ``environment``.

    Empty where no proxy is set.
    """
    if not any(value for name, value in environment.items() if name.lower() in _PROXIES):
        return {}
    exceptions = ",".join(filter(None, (environment.get(name, "") for name in _EXCEPTIONS)))
    hosts = _with_loopback(exceptions)
    everything = "*" in exceptions.split(",")  # which must stand alone, and which gRPC does not understand
    grpc = _with_loopback(environment.get(_GRPC, "") or ("" if everything else exceptions))
    return {**dict.fromkeys(_EXCEPTIONS, "*" if everything else hosts), _GRPC: grpc}


def _with_loopback(exceptions: str) -> str:
    given = [host.strip() for host in exceptions.split(",") if host.strip()]
    return ",".join(dict.fromkeys([*given, *LOOPBACK]))
