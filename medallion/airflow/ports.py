"""Ports of the loopback interface."""

import socket

from medallion.errors import MedallionError


def free_port() -> int:
    """Return a free port of the loopback interface."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def is_free(port: int) -> bool:
    """Check whether nothing listens on a port of the loopback interface."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def require_free_port(port: int, variable: str) -> None:
    """Raise MedallionError if something listens on ``port``. It names the ``variable`` that sets another port."""
    if not is_free(port):
        following = next((other for other in range(port + 1, 65536) if is_free(other)), 0)
        raise MedallionError(
            f"port {port} is taken, perhaps by another clone: stop what listens there (medallion airflow down), or"
            f" choose another with {variable}; port {following} is free"
        )
