"""Reading costs time that grows with the length of an input, and with nothing else of it.

Measured in processor time of one thread against that of `json` for an ordinary 128 KiB, with the
same limits for all parsers: on a machine that does nothing else 50 ms for 128 KiB, 1 s for 4 MiB.
"""

from collections.abc import Iterable

import pytest

from fleetledger.schemas.canonical import parse_json
from tests.fuzzing.parsers import Parser, parsers
from tests.fuzzing.worst import (
    LARGE,
    SMALL,
    bodies,
    cost,
    limit,
    packed,
    plain_values,
    raw_lines,
    repeated,
    tensor_files,
)

PARSERS = parsers()
pytestmark = pytest.mark.timeout(600)


def slowest(parser: Parser, cases: Iterable[tuple[str, bytes]]) -> list[str]:
    """Return the cases beyond their limit, in words."""
    found = [(name, len(data), cost(parser, data)) for name, data in cases]
    assert found
    return [
        f"{name}, {size} bytes: {taken:.1f} times"
        for name, size, taken in found
        if taken > limit(size)
    ]


def test_no_header_line_takes_long() -> None:
    assert slowest(PARSERS["envelope"], raw_lines(SMALL - 1)) == []


def test_no_body_of_any_kind_takes_long() -> None:
    assert slowest(PARSERS["envelope"], bodies(SMALL)) == []


@pytest.mark.parametrize(
    "size", [LARGE // 4, pytest.param(LARGE, marks=pytest.mark.nightly)], ids=["1 MiB", "4 MiB"]
)
def test_no_header_of_tensors_takes_long_however_few_bytes_it_travels_as(size: int) -> None:
    for name, plain in tensor_files(size):
        data = packed(plain)
        assert len(data) < len(plain) / 2
        taken = cost(PARSERS["large tensors"], data)
        told = f"{name}, {len(data)} bytes as zstd: {taken:.1f} times"
        assert taken <= limit(len(plain)), told


def test_no_manifest_takes_long() -> None:
    assert slowest(PARSERS["manifest"], plain_values(LARGE)) == []


@pytest.mark.parametrize("name", sorted(PARSERS))
def test_no_good_input_takes_long_when_a_part_of_it_is_repeated(name: str) -> None:
    assert slowest(PARSERS[name], repeated(PARSERS[name], SMALL)) == []


def test_a_key_given_twice_is_found_in_time_that_grows_with_the_length() -> None:
    reader = Parser(parse_json, ())
    keys = [b'"%06x":0' % number for number in range(380_000)]
    data = b"{" + b",".join([*keys, keys[-1]]) + b"}"
    assert cost(reader, data) <= limit(len(data))
