"""The error tree of the house, and the part of it that belongs to schemas.

FleetledgerError            everything this project raises on purpose
├── SchemaError             something that crossed (or would cross) the wire is wrong
│   ├── InvalidValueError   a single field: names the field, the value and the way out
│   ├── EnvelopeError       the frame around a message
│   ├── TensorError         packed or safetensors data
│   ├── FrameError          a zstd frame
│   ├── ProofError          a proof about the ledger does not hold
│   ├── SignatureError      a signature is missing, wrong, or by a key that may not sign this
│   └── ReleaseError        a release or a root is signed, and not for here, or not for now
├── TransportError          (transport.errors)
├── MethodError             (methods.errors)
├── ExportError             (export.errors)
├── AgentError              (device_agent.errors)
└── CoordinatorError        (coordinator.errors)

`learning` is plain mathematics that knows no messages, so its errors have a root of their own.
"""

from __future__ import annotations

from collections.abc import Iterable

_SHOWN_CHARACTERS = 80


class FleetledgerError(Exception):
    """Base of all errors raised on purpose; the text is meant for the person at the keyboard."""


class SchemaError(FleetledgerError):
    """Something that crossed the wire, or would, breaks the protocol."""


class InvalidValueError(SchemaError, ValueError):
    """A field holds a value that the protocol does not allow.

    It is a `ValueError` too, so that pydantic reports it as a validation error.
    """

    def __init__(self, field: str, value: object, way_out: str) -> None:
        self.field = field
        self.value = value
        self.way_out = way_out
        super().__init__(f"{field}: {shorten(value)} is not allowed; {way_out}")


class EnvelopeError(SchemaError):
    """A frame cannot be read: too large, torn, of an unknown version, or its digest is wrong."""


class TensorError(SchemaError):
    """Tensor data is malformed: size, shape, dtype, range, NaN or infinity."""


class FrameError(SchemaError):
    """A zstd frame is torn, is none, or holds more than is accepted."""


class ProofError(SchemaError):
    """A proof of inclusion or consistency does not hold; whoever gave it is not to be believed."""


class SignatureError(SchemaError):
    """A signature is missing or wrong, or its key is unknown or may not sign this."""


class ReleaseError(SchemaError):
    """A release or a root is not for this fleet, this device or this time, or is not the newest."""


def shorten(value: object) -> str:
    """Return `repr(value)`, cut to a length that fits a message.

    What is cut off is not written first: a value may be megabytes of somebody else's.
    """
    return cut(_written(value, _SHOWN_CHARACTERS + 1), _SHOWN_CHARACTERS)


def cut(text: str, most: int) -> str:
    """Return a text of at most so many characters; where it was longer, it ends in an ellipsis."""
    return text if len(text) <= most else text[: most - 1] + "…"


def _written(value: object, enough: int) -> str:
    """Return the first `enough` characters of `repr(value)` at least, or all there are."""
    if isinstance(value, str | bytes):
        return repr(value[:enough])
    if type(value) is dict:
        pairs = (
            f"{_written(key, enough)}: {_written(item, enough)}" for key, item in value.items()
        )
        return _row("{", pairs, "}", enough)
    if type(value) is list:
        return _row("[", (_written(item, enough) for item in value), "]", enough)
    return repr(value)


def _row(first: str, pieces: Iterable[str], last: str, enough: int) -> str:
    text = first
    for number, piece in enumerate(pieces):
        text += f", {piece}" if number else piece
        if len(text) >= enough:
            return text
    return text + last
