"""Structured worst cases: inputs of a given size that cost a reader as much as they can.

What made one message freeze a coordinator once is here, and what else grows faster than its length
in readers that are not careful: keys given twice, long numbers, deep and wide nesting, thousands of
faults, and headers of which zstd makes a few bytes.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import zstandard

from fleetledger.schemas.canonical import canonical_json
from fleetledger.schemas.catalogue import CATALOGUE
from fleetledger.schemas.message import Message
from fleetledger.schemas.tensor_header import MAX_HEADER_BYTES
from tests.fuzzing.parsers import Parser
from tests.schemas.examples import EXAMPLES, sender

SMALL, LARGE = 128 * 1024, 4 * 1024 * 1024
_LIMIT_SMALL, _LIMIT_LARGE = 22.0, 450.0
_TRIES = 7
ORDINARY = b"[" + b",".join(b'{"%06x":0}' % number for number in range(SMALL // 13)) + b"]"


def limit(size: int) -> float:
    """Return how many times an ordinary 128 KiB of JSON reading so many bytes may take.

    At best, on the machine on which the figures of docs/promises.md were measured,
    `json` took 2.2 ms for these; so it is 50 ms for 128 KiB, 1 s for 4 MiB, and evenly between.
    """
    share = max(0.0, (size - SMALL) / (LARGE - SMALL))
    return _LIMIT_SMALL + share * (_LIMIT_LARGE - _LIMIT_SMALL)


def cost(parser: Parser, data: bytes) -> float:
    """Return what reading an input takes, in processor time of `json` for an ordinary 128 KiB.

    Both are measured side by side, and the least of a few tries counts: whatever else the machine
    does makes a reading slower now and then, and none faster.
    """
    least = float("inf")
    for _ in range(_TRIES):
        ordinary = _seconds(lambda: json.loads(ORDINARY))
        least = min(least, _seconds(lambda: _read(parser, data)) / ordinary)
        if least <= limit(len(data)):
            break
    return least


def _seconds(work: Callable[[], object]) -> float:
    began = time.thread_time()
    work()
    return time.thread_time() - began


def _read(parser: Parser, data: bytes) -> None:
    with suppress(*parser.refuses):
        parser.read(data)


def values(size: int) -> Iterator[tuple[str, bytes]]:
    """Return JSON values of about so many bytes, by name."""
    wide = {
        "lists": b"[]", "members": b'{"":0}', "numbers": b"1", "fractions": b"0.1",
        "letters": '"é"'.encode(), "digits": b"9" * 4300, "nested lists": b"[" * 25 + b"]" * 25,
        "nested objects": b'{"":' * 25 + b"0" + b"}" * 25,
    }  # fmt: skip
    for name, unit in wide.items():
        most = (size - 2) // (len(unit) + 1)
        yield name, b"[" + b",".join([unit] * most) + b"]"
        # As many as are read at all, and text for the rest.
        few = min(most, 14_000 // (1 + unit.count(b"[") + unit.count(b"{")))
        rest = size - few * (len(unit) + 1)
        yield f"few {name}", b"[" + b",".join([unit] * few) + b',"' + b"x" * (rest - 5) + b'"]'
    keys = [b'"%07x":0' % number for number in range(size // 12)]
    yield "keys", b"{" + b",".join(keys) + b"}"
    yield "a key twice", b"{" + b",".join([*keys, keys[-1]]) + b"}"
    yield "every key twice", b"{" + b",".join(keys[: len(keys) // 2] * 2) + b"}"
    yield "one number", b"9" * size
    yield "one fraction", b"0." + b"7" * (size - 2)
    yield "deep", b"[" * (size // 2) + b"]" * (size // 2)
    yield "open", b"[" * size
    yield "quotes", b'"' + b'\\"' * (size // 2 - 1) + b'"'
    yield "escapes", b'"' + b"\\ud83d\\ude00" * (size // 12) + b'"'
    yield "spaces", b" " * size


def raw_lines(size: int) -> Iterator[tuple[str, bytes]]:
    """Return header lines with a hostile body, and a hostile value instead of a header."""
    before, after = (
        b'{"attachment_digest":null,"attachment_size":0,"body":',
        (
            b',"boot":"0123456789abcdef","fleet":"harbour","key":null,"kind":"nothing",'
            b'"refers_to":null,"sender":"crane-7","sent_ms":0,"sequence":0,"signature":null,'
            b'"version":1}'
        ),
    )
    room = size - len(before) - len(after)
    for name, value in values(room - 6):
        yield f"{name} in a body", before + b'{"x":' + value + b"}" + after + b"\n"
        yield f"{name} as a body", before + value + after + b"\n"
    for name, value in values(size):
        yield f"{name} alone", value + b"\n"


def bodies(size: int) -> Iterator[tuple[str, bytes]]:
    """Return whole envelopes of what devices send, with hostile values in every field."""
    devices = {entry.model for entry in CATALOGUE if entry.sender != "coordinator"}
    for example in (item for item in EXAMPLES if type(item) in devices):
        for name, body in _hostile_bodies(example, size - 1000):
            yield f"{example.kind}: {name}", _enveloped(example, body)


def _hostile_bodies(example: Message, size: int) -> Iterator[tuple[str, dict[str, Any]]]:
    good = example.model_dump(mode="json")
    hostile = {
        "faults": [""] * min(size // 4, 30_000),
        "names": {f"/{number:x}": 1 for number in range(min(size // 10, 14_000))},
    }
    for name, value in hostile.items():
        if isinstance(value, dict):
            yield f"{name} beside the fields", {**good, **value}
        for field in good:
            yield f"{name} in {field}", {**good, field: value}


def _enveloped(example: Message, body: dict[str, Any]) -> bytes:
    header = sender().seal(example, sent_ms=1).header.model_copy(update={"body": body})
    return canonical_json(header.model_dump(mode="json")) + b"\n"


def tensor_files(size: int) -> Iterator[tuple[str, bytes]]:
    """Return tensor files whose header has about so many bytes, plain and as zstd."""
    for name, value in values(size // 2):
        inner = b'{"metadata":{"x":' + value + b'},"packed":{}}'
        text = json.dumps(inner.decode(), ensure_ascii=False).encode()
        if len(text) > MAX_HEADER_BYTES - 100:
            continue  # quotes take two bytes there
        yield f"{name} in metadata", _tensor_file(b'{"__metadata__":{"fleetledger":' + text + b"}}")
        yield f"{name} as tensors", _tensor_file(value)


def _tensor_file(text: bytes) -> bytes:
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def packed(data: bytes) -> bytes:
    """Return what travels of a file: a few hundred bytes."""
    return zstandard.ZstdCompressor(level=1).compress(data)


def plain_values(size: int) -> Iterator[tuple[str, bytes]]:
    """Return hostile values as they are, and in a list of names."""
    for name, value in values(size):
        yield name, value
        yield f"{name} in class names", b'{"class_names":' + value + b"}"


def repeated(parser: Parser, size: int) -> Iterator[tuple[str, bytes]]:
    """Return good inputs of a parser of which a part is there very often."""
    for number, good in enumerate(parser.good[:2]):
        for start in range(0, len(good), max(1, len(good) // 7)):
            piece = good[start : start + max(1, len(good) // 7)]
            times = size // len(piece)
            yield f"good {number} from {start}", good[:start] + piece * times + good[start:]
