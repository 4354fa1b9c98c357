"""Networks of pixels that a fleet had before its tasks began, and what they make of scenes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fleetledger.coordinator.core.state import read_entry
from fleetledger.coordinator.ledger.blobs import Blobs, BlobStore
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.paths import blob_folder, ledger_path
from fleetledger.coordinator.topics.lineages.entries import NetworkImported
from fleetledger.coordinator.topics.rounds.entries import RoundOpened
from fleetledger.learning.networks.conversion import to_tensors
from fleetledger.learning.networks.pictures import Pictures
from fleetledger.learning.networks.segmentation.network import SegmentationNetwork
from fleetledger.learning.networks.segmentation.torch_layers import DensePass
from fleetledger.learning.networks.torch_layers import Mode
from fleetledger.learning.numerics.entropy import Floats
from fleetledger.learning.numerics.pixel_uncertainty import (
    mean_entropy,
    mean_uncertainty,
    most_uncertain,
)
from fleetledger.methods.fbl.assignment import FblAssignment
from fleetledger.methods.fbl.growth import grown
from fleetledger.methods.training.network_weights import decode_weights
from fleetledger.schemas.models import Preprocessing
from fleetledger.schemas.values import ClassName

_BACKGROUND = "background"
_TOGETHER = 16


@dataclass(frozen=True)
class SceneValues:
    """What a network makes of each scene (n,)."""

    doubt: Floats
    """The mean of H / ln C over all pixels, at the size of the features."""
    tenth: Floats
    """The same over the most uncertain tenth."""
    nats: Floats
    """The agent's in mode `fixed-rise`: the mean entropy of all pixels there."""
    level: Floats
    """That of FBL's looks: `tenth` at the size of the picture, by the rows of before."""
    wide_level: Floats
    """The same over all pixels."""
    look_nats: Floats
    """That of FBL's equation (11): `nats` at the size of the picture."""


@dataclass(frozen=True, eq=False)
class TaskModel:
    """The network before a task, and the classes that the task adds."""

    network: SegmentationNetwork
    arrays: Mapping[str, NDArray[Any]]
    names: tuple[ClassName, ...]
    """Rows of the head behind background's."""
    added: tuple[ClassName, ...]
    preprocessing: Preprocessing

    def grown(self) -> TaskModel:
        """Return it as devices get it once the task's classes are registered: nothing learned."""
        names = (*self.names, *self.added)
        arrays = grown(self.arrays, self.names, names, "background", 0)
        return replace(self, arrays=arrays, names=names, added=())

    def values(self, pictures: NDArray[np.uint8], known: tuple[ClassName, ...]) -> SceneValues:
        """Return what it makes of pictures (n, c, h, w); levels are by the rows of `known`."""
        rows, before = (_BACKGROUND, *self.names), (_BACKGROUND, *known)
        parts = [
            (
                mean_uncertainty(small, rows),
                most_uncertain(small, rows),
                mean_entropy(small),
                most_uncertain(large, rows, before),
                mean_uncertainty(large, rows, before),
                mean_entropy(large),
            )
            for small, large in self._scores(pictures)
        ]
        return SceneValues(*(np.concatenate(part) for part in zip(*parts, strict=True)))

    def _scores(self, pictures: NDArray[np.uint8]) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
        """Yield scores at the size of the features and of the pictures, some scenes at a time."""
        sight = Pictures(self.preprocessing.mean, self.preprocessing.deviation)
        parameters, buffers = to_tensors(dict(self.arrays))
        for start in range(0, len(pictures), _TOGETHER):
            with torch.no_grad():
                inputs = sight.normalise(torch.from_numpy(pictures[start : start + _TOGETHER]))
                outputs, _ = DensePass(self.network)(parameters, buffers, inputs, Mode())
            yield outputs.small_logits.numpy(), outputs.logits.numpy()


def models_of_run(home: Path) -> list[TaskModel]:
    """Return the networks before the second and every later task of a coordinator's home.

    Behind them comes that of the last round, which knows every class.
    """
    with LedgerReader.open_read_only(ledger_path(home)) as ledger:
        (imported,) = _all(ledger, NetworkImported)
        assert isinstance(imported.preprocessing, Preprocessing)
        network = FblAssignment.from_values(imported.settings).network
        blobs, found = Blobs(ledger, BlobStore(blob_folder(home))), []
        every = _all(ledger, RoundOpened)
        first = [opened for opened in every if opened.stage > 1 and opened.round_of_stage == 1]
        for opened in (*first, every[-1]):
            arrays, names = decode_weights(blobs.get(opened.weights.digest), network)
            added = tuple(name for name in opened.class_names if name not in names)
            found.append(TaskModel(network, arrays, names, added, imported.preprocessing))
    return found


def _all(ledger: LedgerReader, kind: type[Any]) -> list[Any]:
    return [read_entry(entry.kind, entry.body) for entry in ledger.find(kind)]
