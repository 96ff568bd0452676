"""Read the lines of a change file in bounded memory, whatever the file contains."""

from collections.abc import Iterator

from medallion.storage.files import Place

MAX_LINE = 1 << 20
_HOLE = bytes(16)


def read_lines(path: Place) -> Iterator[tuple[int, bytes, bool]]:
    """Yield each line that is not blank: its number from 1, its bytes, and whether a line end closes it.

    A line that is too long is cut, after enough bytes to recognise that it is.
    """
    with path.open("rb") as stream:
        number = 0
        while raw := stream.readline(MAX_LINE + len(b"\r\n")):
            number += 1
            complete = raw.endswith(b"\n")
            while not complete and (rest := stream.readline(MAX_LINE)):
                complete = rest.endswith(b"\n")  # a line that is too long is skipped to its end
            if is_too_long(raw):  # yielded with its byte order mark, so that it stays too long
                yield number, raw, complete
                continue
            if number == 1:
                raw = raw.removeprefix(b"\xef\xbb\xbf")
            if raw.strip():
                yield number, raw, complete


def is_too_long(raw: bytes) -> bool:
    """Check whether a line, without its line end, is longer than MAX_LINE."""
    return len(raw.removesuffix(b"\n").removesuffix(b"\r")) > MAX_LINE


def has_hole(raw: bytes, complete: bool) -> bool:
    """Check whether a part of a line was never written, so that an unknown number of lines may be missing."""
    return _HOLE in raw or not raw.strip(b"\0\r\n") or (not complete and raw.endswith(b"\0"))
