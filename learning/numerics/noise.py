"""Normal noise from a secret: whoever lacks the secret cannot tell it from chance.

SHAKE-256 turns the secret into uniform numbers, Box and Muller's formula makes them normal. The
same secret gives the same noise, up to the last bits of the machine's logarithm and cosine.
"""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

_BLOCK = 1 << 15


def normal_noise(secret: bytes, count: int) -> Floats:
    """Return `count` independent draws from N(0, 1)."""
    blocks = range(-(-count // _BLOCK))
    drawn = [_block(secret + b"/%d" % index) for index in blocks]
    return np.concatenate(drawn)[:count] if drawn else np.empty(0)


def _block(secret: bytes) -> Floats:
    data = hashlib.shake_256(secret).digest(8 * _BLOCK)
    words = np.frombuffer(data, "<u8").reshape(2, _BLOCK // 2)
    uniform = ((words >> np.uint64(11)).astype(np.float64) + 1) * 2.0**-53
    radius = np.sqrt(-2 * np.log(uniform[0]))
    angle = 2 * np.pi * uniform[1]
    return np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])
