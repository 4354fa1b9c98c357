"""Golden files that somebody made to do harm, or that broke: each with words of its refusal."""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Callable

import numpy as np
import safetensors.numpy

from tests.device_agent.hostile.onnx_files import pickled, zip_bomb

F, X = 8 * 64 * 4, 8 * 1 * 8 * 8 * 4
"""Bytes of the golden features and of the golden inputs."""
FEATURES = {"dtype": "F32", "shape": [8, 64], "data_offsets": [0, F]}
INPUTS = {"dtype": "F32", "shape": [8, 1, 8, 8], "data_offsets": [F, F + X]}


def file(header: bytes, data: bytes = bytes(F + X)) -> bytes:
    return struct.pack("<Q", len(header)) + header + data


def tensors(features: object = FEATURES, inputs: object = INPUTS, size: int = F + X) -> bytes:
    return file(json.dumps({"features": features, "inputs": inputs}).encode(), bytes(size))


def objects() -> bytes:
    out = io.BytesIO()
    np.save(out, np.array([{}], dtype=object), allow_pickle=True)
    return out.getvalue()


def twice() -> bytes:
    one = json.dumps({"features": FEATURES})[1:-1]
    return file(f'{{{one},{one},"inputs":{json.dumps(INPUTS)}}}'.encode())


def doubles() -> bytes:
    return safetensors.numpy.save(
        {"features": np.zeros((8, 64)), "inputs": np.zeros((8, 1, 8, 8), np.float32)}
    )


Make = Callable[[], bytes]
NONE = "no golden file"
GOLDEN_FILES: dict[str, tuple[Make, str]] = {
    "a pickle": (pickled, NONE),
    "an array of objects": (objects, NONE),
    "an archive that grows a thousandfold": (zip_bomb, NONE),
    "a header of 2^63 bytes": (lambda: b"\xff" * 8 + bytes(F), "its header declares"),
    "a header longer than the file": (lambda: struct.pack("<Q", 99) + b"{}", "declares 99 bytes"),
    "a header of brackets": (lambda: file(b"[" * 16_000), "nested deeper"),
    "a header of a number with ten thousand digits": (lambda: file(b"9" * 10_000), NONE),
    "a header that is no text": (lambda: file(b"\xff\xfe{}"), "not valid JSON"),
    "a key given twice": (twice, "given twice"),
    "tensors that overlap": (
        lambda: tensors(inputs={**INPUTS, "data_offsets": [F - 4, F + X - 4]}),
        "the one before ends at",
    ),
    "tensors with a gap": (
        lambda: tensors(inputs={**INPUTS, "data_offsets": [F + 4, F + X + 4]}, size=F + X + 4),
        "the one before ends at",
    ),
    "offsets beyond the file": (
        lambda: tensors(size=F + X - 1),
        "bytes of tensors in",
    ),
    "bytes behind the tensors": (lambda: tensors(size=F + X + 1), "bytes of tensors in"),
    "offsets of 2^63": (
        lambda: tensors(features={**FEATURES, "data_offsets": [2**63, 2**63 + F]}),
        "sizes are 0 to",
    ),
    "negative offsets": (
        lambda: tensors(features={**FEATURES, "data_offsets": [-F, 0]}),
        "sizes are 0 to",
    ),
    "offsets the wrong way round": (
        lambda: tensors(features={**FEATURES, "data_offsets": [F, 0]}),
        "do not hold",
    ),
    "a gigantic shape": (
        lambda: tensors(features={**FEATURES, "shape": [8, 2**62]}),
        "sizes are 0 to",
    ),
    "a gigantic number of samples": (
        lambda: tensors(features={**FEATURES, "shape": [2**20, 64]}),
        "was expected",
    ),
    "a shape of truths": (
        lambda: tensors(features={**FEATURES, "shape": [True, 64]}),
        "sizes are 0 to",
    ),
    "numbers of another type": (doubles, "'F64' of shape"),
    "tensors of other names": (
        lambda: safetensors.numpy.save({"outputs": np.zeros(1, np.float32)}),
        "its header names",
    ),
    "nothing": (lambda: b"\0", "1 bytes"),
}
