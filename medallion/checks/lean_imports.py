"""Loading Great Expectations without what it loads and checks never use: a third of its seconds."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import LazyLoader, find_spec, module_from_spec

_OPTIONAL = "pyspark"  # an integration that is left out where the package is not installed
_RARELY_USED = "scipy.stats"  # for expectations about distributions


@contextmanager
def lean_imports() -> Iterator[None]:
    """Inside the block, imports find no pyspark, unless it is loaded already, and put scipy.stats off until used."""
    hidden = _OPTIONAL not in sys.modules
    if hidden:
        sys.modules[_OPTIONAL] = None  # type: ignore[assignment]  # how Python says: not to be found
    if _RARELY_USED not in sys.modules:
        _put_off(_RARELY_USED)
    try:
        yield
    finally:
        if hidden:
            del sys.modules[_OPTIONAL]


def _put_off(name: str) -> None:
    """Import ``name`` as an empty shell that fills itself on first use."""
    spec = find_spec(name)
    if spec is None or spec.loader is None:
        return
    spec.loader = LazyLoader(spec.loader)
    module = module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    parent, _, child = name.rpartition(".")
    setattr(sys.modules[parent], child, module)
