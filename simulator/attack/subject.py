"""What is attacked: a device's pictures, and the frozen network that everybody of the fleet has."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from fleetledger.learning.errors import LearningError
from fleetledger.learning.networks.conversion import to_tensors
from fleetledger.learning.networks.network import Network
from fleetledger.learning.networks.registry import build_network
from fleetledger.learning.networks.torch_layers import Mode, forward
from fleetledger.learning.numerics.integer_features import (
    QUANTISED_LARGEST,
    IntegerProjection,
    quantise_features,
)
from fleetledger.methods.statistics.sides import FeatureMap
from fleetledger.methods.training.network_weights import decode_weights
from fleetledger.runtime.errors import FleetledgerError
from fleetledger.simulator.attack.table import DIGITS, SubjectSettings
from fleetledger.simulator.datasets.digits import load_digits
from fleetledger.simulator.datasets.npz import load_npz
from fleetledger.simulator.errors import AttackError

Floats = npt.NDArray[np.float32]
_BATCH = 500


@dataclass(frozen=True, eq=False)
class Subject:
    """Pictures (N, c, s, s) from 0 to 1 with a class (N,) each, and the features of a network."""

    settings: SubjectSettings
    pictures: Tensor
    classes: npt.NDArray[np.int64]
    network: Network | None = None
    tensors: tuple[dict[str, Tensor], dict[str, Tensor]] = ({}, {})

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of a picture."""
        return tuple(self.pictures.shape[1:])

    def features(self, pictures: Tensor) -> Tensor:
        """Return the network's features f (n, d); gradients pass."""
        if self.network is None:
            return pictures.flatten(1)
        inputs = (pictures - self.settings.mean) / self.settings.deviation
        return forward(self.network, *self.tensors, inputs, Mode()).features

    @cached_property
    def all_features(self) -> Floats:
        """Features (N, d) of all pictures."""
        with torch.no_grad():
            every = [self.features(some) for some in self.pictures.split(_BATCH)]
        return np.asarray(torch.cat(every).numpy(), np.float32)

    def mapped(self, pictures: Tensor, after: FeatureMap) -> Tensor:
        """Return h (n, M) without its roundings, so that gradients pass."""
        f = self.features(pictures)
        q = QUANTISED_LARGEST * f / f.abs().amax(1, keepdim=True).clamp(min=1e-12)
        if after.matrix is None:
            return q
        a = torch.relu(q @ torch.as_tensor(after.matrix, dtype=q.dtype))
        return QUANTISED_LARGEST * a / a.amax(1, keepdim=True).clamp(min=1e-12)

    def quantised(self, rows: npt.NDArray[np.int64], after: FeatureMap) -> Floats:
        """Return h (n, M) of pictures as a device's frozen model puts it out."""
        q = quantise_features(self.all_features[rows])
        if after.kind == "none":
            return q.astype(np.float32)
        assert after.matrix is not None
        projection = IntegerProjection(after.matrix.astype(np.int8), after.feature_bits)
        return projection(q).astype(np.float32)

    def some(self, count: int, chance: np.random.Generator) -> npt.NDArray[np.int64]:
        """Return `count` pictures of one class, both drawn."""
        large = np.flatnonzero(np.bincount(self.classes) >= count)
        if not len(large):
            raise AttackError(f"images: {count}; no class of {self.settings.data} has so many")
        members = np.flatnonzero(self.classes == chance.choice(large))
        return chance.choice(members, count, replace=False)


def subject_of(settings: SubjectSettings) -> Subject:
    """Return pictures and network; raise `SimulatorError` for files that do not do."""
    read = load_digits() if settings.data == DIGITS else load_npz(Path(settings.data)).train
    images = read.images[:, None] if read.images.ndim == 3 else read.images.transpose(0, 3, 1, 2)
    pictures = torch.as_tensor(np.ascontiguousarray(images), dtype=torch.float32) / 255
    found = Subject(settings, pictures, read.labels)
    if settings.network is None:
        return found
    try:
        network = build_network(settings.network, found.shape)
        arrays = network.initial(settings.seed, ("one", "other"))
        if settings.weights is not None:
            arrays = decode_weights(settings.weights.read_bytes(), network)[0]
    except OSError as error:
        raise AttackError(f"{settings.weights}: cannot be read: {error.strerror}") from error
    except (LearningError, FleetledgerError) as error:
        raise AttackError(str(error)) from error
    return Subject(settings, pictures, read.labels, network, to_tensors(arrays))
