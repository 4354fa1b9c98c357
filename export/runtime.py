"""ONNX Runtime as export uses it: the CPU provider, one thread, foreign errors translated."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fleetledger.export.errors import ModelFileError, RuntimeMissingError
from fleetledger.runtime.onnx_runtime import onnx_runtime, onnx_runtime_tools
from fleetledger.runtime.pip_command import pip_install

_PROVIDER = "CPUExecutionProvider"
_FATAL_ONLY = 4
_PLACE_IN_SOURCE = re.compile(r"\S*/onnxruntime\S*:\d+ .*?\)( const)? ")
"""Place in ONNX Runtime's own source that an error of it names, with the signature there."""
_WAYS_OUT = {
    "bfloat16": "in float32: `network.float()` before torch.onnx.export",
    "Could not find an implementation": "in float32 (`network.float()` before torch.onnx.export), "
    "or without that operator",
    "bound to different types": "without that node in the conversion to float16 "
    "(convert_float_to_float16(..., node_block_list=[NODE])), or import the file from before it",
    "does not match expected type": "in float32 (skl2onnx: FloatTensorType)",
}
"""What to do, by a sign in the words of ONNX Runtime."""
_ANOTHER_EXPORT = "with operators and shapes that this version knows"


class LoadedModel:
    """A model loaded into ONNX Runtime.

    Raises `ModelFileError` if ONNX Runtime cannot load it, `RuntimeMissingError` if there is none.
    """

    def __init__(self, model: bytes) -> None:
        runtime = _runtime()
        options = runtime.SessionOptions()
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        options.log_severity_level = _FATAL_ONLY
        try:
            self._session = runtime.InferenceSession(model, options, providers=[_PROVIDER])
        except Exception as error:  # its exceptions share no narrower base
            raise _failure("load", error) from error
        self._names = [output.name for output in self._session.get_outputs()]

    def run(
        self, feeds: Mapping[str, npt.NDArray[Any]], outputs: Sequence[str] | None = None
    ) -> dict[str, npt.NDArray[Any]]:
        """Return the outputs by name, or those `outputs` alone.

        Raises `ModelFileError` if the run fails.
        """
        names = self._names if outputs is None else outputs
        try:
            values = self._session.run(names, dict(feeds))
        except Exception as error:  # as above
            raise _failure("run", error) from error
        return {name: np.asarray(value) for name, value in zip(names, values, strict=True)}


def describe_runtime() -> str:
    """Return engine, version and provider, as the manifest records them."""
    return f"onnxruntime {_runtime().__version__} {_PROVIDER}"


def _failure(verb: str, error: Exception) -> ModelFileError:
    told = _PLACE_IN_SOURCE.sub("", str(error)).strip()
    return ModelFileError(
        f"model: ONNX Runtime {_runtime().__version__} cannot {verb} it: {told}; export it again "
        + next((way for sign, way in _WAYS_OUT.items() if sign in told), _ANOTHER_EXPORT)
    )


def _runtime() -> Any:  # noqa: ANN401 - a module without type information
    try:
        return onnx_runtime()
    except ImportError as error:
        raise RuntimeMissingError(
            f"onnxruntime: not installed; run `{pip_install('cpu')}`"
        ) from error


def runtime_tools(name: str) -> Any:  # noqa: ANN401 - a module without type information
    """Return a module of ONNX Runtime's tools; raise `RuntimeMissingError` where it is not here."""
    try:
        return onnx_runtime_tools(name)
    except ImportError as error:
        raise RuntimeMissingError(
            f"onnxruntime: has no {name} here, as in a bundle for devices; run "
            f"`{pip_install('cpu')}`"
        ) from error
