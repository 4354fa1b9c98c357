"""Reads a network's weights from a file. Needs torch.

Only tensors are read: safetensors, and torch's own files without their power to run code.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import safetensors.torch
import torch

from fleetledger.export.errors import WeightsError

State = OrderedDict[str, torch.Tensor]
"""Tensors by name; torch hangs the versions of the layers on it as `_metadata`."""


def read_weights(path: Path) -> State:
    """Return the state dict in the file; floating-point tensors of any width become float32.

    Raises `WeightsError` for a file that cannot be read or holds anything but named tensors.
    """
    loaded = _load(path)
    if not isinstance(loaded, Mapping):
        raise WeightsError(
            f"weights: {path} holds a {type(loaded).__name__}; save the network's state_dict()"
        )
    others = [str(name) for name, value in loaded.items() if not isinstance(value, torch.Tensor)]
    if others:
        raise WeightsError(
            f"weights: {path} holds more than tensors: {listed(others)}; save the network's "
            "state_dict() alone"
        )
    state = State((str(name), _as_float32(value)) for name, value in loaded.items())
    if hasattr(loaded, "_metadata"):
        keep_versions(state, loaded._metadata)
    return state


def keep_versions(state: State, versions: Mapping[str, Any]) -> None:
    """Hang the versions of the layers on `state`: torch mends the names of older ones by them."""
    state._metadata = versions  # type: ignore[attr-defined] # where torch itself puts and seeks it


def listed(names: list[str]) -> str:
    """Return the first few names and how many more there are."""
    shown, rest = names[:_MOST_NAMES], len(names) - _MOST_NAMES
    return ", ".join(shown) + (f" and {rest} more" if rest > 0 else "")


def _read_torch(path: Path) -> Any:  # noqa: ANN401 - whatever the file holds
    return torch.load(path, map_location="cpu", weights_only=True)


_READERS: Mapping[str, Callable[[Path], Any]] = {
    ".pt": _read_torch,
    ".pth": _read_torch,
    ".safetensors": safetensors.torch.load_file,
}
_MOST_NAMES = 8


def _load(path: Path) -> Any:  # noqa: ANN401 - whatever the file holds
    reader = _READERS.get(path.suffix)
    if reader is None:
        raise WeightsError(
            f"weights: the ending {path.suffix!r} of {path} is not known; give a state dict in a "
            f"file that ends in {', '.join(_READERS)}"
        )
    try:
        return reader(path)
    except OSError as error:
        raise WeightsError(
            f"weights: {path} cannot be read: {error.strerror or error}; give a state dict"
        ) from error
    except Exception as error:  # torch's own text advises to unpickle whatever is in the file
        raise WeightsError(
            f"weights: {path} is damaged or holds more than tensors ({type(error).__name__}); save "
            "the network's state_dict() alone, with torch.save or as safetensors"
        ) from error


def _as_float32(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to(torch.float32) if tensor.is_floating_point() else tensor
