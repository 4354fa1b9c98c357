"""The errors of schemas, beside those of single values (`runtime.errors`).

SchemaError             (runtime.errors)
├── EnvelopeError       the frame around a message
├── TensorError         packed or safetensors data
├── FrameError          a zstd frame
├── ProofError          a proof about the ledger does not hold
├── SignatureError      a signature is missing, wrong, or by a key that may not sign this
└── ReleaseError        a release or a root is signed, and not for here, or not for now
"""

from __future__ import annotations

from fleetledger.runtime.errors import SchemaError


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
