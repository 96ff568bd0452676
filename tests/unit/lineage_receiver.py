"""A lineage service on the loopback interface, and what the published schemas ask of the events that it gets."""

import importlib
import json
import pkgutil
import threading
import types
import typing
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import attr
from openlineage.client import generated

Received = list[dict[str, Any]]


@contextmanager
def lineage_service() -> Iterator[tuple[str, Received]]:
    """Its address, and the events that it has got so far."""
    events: Received = []

    class Service(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            assert self.path == "/api/v1/lineage"
            events.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(201)
            self.end_headers()

        def log_message(self, *_: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Service)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", events
    finally:
        server.shutdown()
        server.server_close()


def facet_classes() -> dict[str, type]:
    """The facets by the address of their published schema: the client's classes are generated from these schemas."""
    classes = {}
    for module in pkgutil.iter_modules(generated.__path__):
        for kind in vars(importlib.import_module(f"openlineage.client.generated.{module.name}")).values():
            if isinstance(kind, type) and attr.has(kind) and hasattr(kind, "_get_schema"):
                classes[kind._get_schema()] = kind
    return classes


FACETS = facet_classes()


def require_type(value: Any, kind: Any, where: str) -> None:
    """Assert that JSON is what a class generated from a schema holds: no field that it lacks, none missing."""
    origin = typing.get_origin(kind)
    if origin in (typing.Union, types.UnionType):
        if value is not None or type(None) not in typing.get_args(kind):
            require_type(value, next(one for one in typing.get_args(kind) if one is not type(None)), where)
    elif origin is list:
        assert isinstance(value, list), where
        for number, part in enumerate(value):
            require_type(part, typing.get_args(kind)[0], f"{where}[{number}]")
    elif origin is dict:
        assert isinstance(value, dict), where
        for name, part in value.items():
            require_type(part, typing.get_args(kind)[1], f"{where}.{name}")
    elif attr.has(kind):
        require_fields(value, kind, where)
    elif isinstance(kind, type) and issubclass(kind, Enum):
        assert value in {member.value for member in kind}, where
    elif kind is not typing.Any:
        assert isinstance(value, (int, float) if kind is float else kind), f"{where}: {value!r} is no {kind}"


def require_fields(value: dict[str, Any], kind: type, where: str) -> None:
    """Assert that an object is what its schema says; a facet of its producer's own may hold anything besides."""
    if "_schemaURL" in value:
        assert value["_producer"], where
        if value["_schemaURL"].endswith(("#/$defs/RunFacet", "#/$defs/JobFacet", "#/$defs/DatasetFacet")):
            return
        assert issubclass(FACETS[value["_schemaURL"]], kind), f"{where} is no {kind.__name__}"
        kind = FACETS[value["_schemaURL"]]
    hints = typing.get_type_hints(kind)
    fields = {field.name: field for field in attr.fields(kind)}
    assert value.keys() <= fields.keys(), f"{where} has {value.keys() - fields.keys()}"
    for name, field in fields.items():
        if name in value:
            require_type(value[name], hints[name], f"{where}.{name}")
        else:
            assert field.default is not attr.NOTHING, f"{where} lacks {name}"
