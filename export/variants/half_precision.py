"""FP16: a backbone whose weights and sums are half-precision numbers.

The conversion is ONNX Runtime's own. Images come in and features go out as float32, through a
`Cast` on either side; what half precision has no room for is held at its ends.
"""

from __future__ import annotations

import warnings

from onnx import ModelProto

from fleetledger.export.errors import ModelFileError
from fleetledger.export.runtime import runtime_tools


def halved(backbone: ModelProto) -> ModelProto:
    """Return the backbone in half precision, with float32 at both ends; raise `ModelFileError`."""
    tools = runtime_tools("transformers.float16")
    model = ModelProto()
    model.CopyFrom(backbone)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of each weight that half precision rounds to 0
            converted: ModelProto = tools.convert_float_to_float16(model, keep_io_types=True)
    except Exception as error:  # its exceptions share no narrower base
        raise ModelFileError(f"fp16: the backbone cannot be converted: {error}") from error
    return converted
