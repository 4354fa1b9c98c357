"""Draw what FBL makes of a task's masks: the old model's guesses, and which of them are accepted.

    python -m benchmarks.papers.fbl_tables.pseudo_labels RUN --out pseudo_labels.png

RUN is the folder of a finished run of FBL with an in-process ledger. The networks are those of the
last round: the one that its devices were sent, and the old model that was served with it. Guesses
are accepted by equation (2), at the thresholds of Algorithm 1 over all training scenes of the task.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fleetledger.coordinator.core.state import read_entry
from fleetledger.coordinator.ledger.blobs import Blobs, BlobStore
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.paths import blob_folder, ledger_path
from fleetledger.coordinator.topics.lineages.entries import NetworkImported
from fleetledger.coordinator.topics.rounds.entries import RoundOpened
from fleetledger.learning.losses.segmentation.pseudo_labels import adaptive_labels
from fleetledger.learning.losses.segmentation.thresholds import adaptive_thresholds
from fleetledger.learning.networks.conversion import to_tensors
from fleetledger.learning.networks.pictures import Pictures
from fleetledger.learning.networks.segmentation.network import SegmentationNetwork
from fleetledger.learning.networks.segmentation.torch_layers import DensePass
from fleetledger.learning.networks.torch_layers import Mode
from fleetledger.learning.numerics.preprocessing import sized_mask
from fleetledger.methods.fbl.assignment import OLD_MODEL, FblAssignment
from fleetledger.methods.training.network_weights import decode_weights
from fleetledger.schemas.models import Preprocessing
from fleetledger.schemas.values import ClassName
from fleetledger.simulator.datasets.segmentation.masks import show_classes
from fleetledger.simulator.datasets.segmentation.samples import BACKGROUND, value_of
from fleetledger.simulator.datasets.segmentation.tasks import TaskScenes
from fleetledger.simulator.metrics.results import RunResults
from fleetledger.simulator.report.pictures.segmentation import SegmentedScene, draw_segmentation
from fleetledger.simulator.report.pictures.style import as_png
from fleetledger.simulator.run.preparation import PreparedSeed
from fleetledger.simulator.virtual.scenes import SizedScenes

SHARES = (0.2, 0.8)
"""rho in the first epoch of the paper, and from the seventh on."""
SCENES = 6
_BATCH = 16


@dataclass(frozen=True, eq=False)
class LastRound:
    """The networks of a run's last round, and how pictures become inputs."""

    network: SegmentationNetwork
    sent: tuple[Mapping[str, Tensor], Mapping[str, Tensor]]
    old: tuple[Mapping[str, Tensor], Mapping[str, Tensor]]
    names: tuple[ClassName, ...]
    """Rows of the head behind background's."""
    preprocessing: Preprocessing

    @classmethod
    def read(cls, home: Path) -> LastRound:
        """Return what the ledger in a coordinator's home says, and its files."""
        with LedgerReader.open_read_only(ledger_path(home)) as ledger:
            imported, opened = _last(ledger, NetworkImported), _last(ledger, RoundOpened)
            blobs = Blobs(ledger, BlobStore(blob_folder(home)))
            network = FblAssignment.from_values(imported.settings).network
            sent, names = decode_weights(blobs.get(opened.weights.digest), network)
            old, _ = decode_weights(blobs.get(opened.extras[OLD_MODEL].digest), network)
        assert isinstance(imported.preprocessing, Preprocessing)
        return cls(network, to_tensors(sent), to_tensors(old), names, imported.preprocessing)

    def logits(self, model: tuple[Any, Any], pictures: NDArray[np.uint8]) -> Tensor:
        """Return the scores (n, rows, h, w) of pictures (n, c, h, w)."""
        sight = Pictures(self.preprocessing.mean, self.preprocessing.deviation)
        with torch.no_grad():
            inputs = sight.normalise(torch.from_numpy(pictures))
            outputs, _ = DensePass(self.network)(*model, inputs, Mode())
        return outputs.logits


def main() -> None:
    """Draw, and say where the picture is."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("--out", type=Path, default=Path("pseudo_labels.png"))
    arguments = parser.parse_args()
    results = RunResults.read(arguments.run)
    seed = next(iter(results.seeds))
    samples = PreparedSeed.load(results.scenario, seed).split.train
    assert isinstance(samples, TaskScenes), "a run on scenes"
    rounds = LastRound.read(arguments.run / f"seed-{seed}" / "coordinator")
    arguments.out.write_bytes(as_png(draw_segmentation(rows(rounds, samples), samples.class_names)))
    print(arguments.out)


def rows(rounds: LastRound, samples: TaskScenes) -> list[SegmentedScene]:
    """Return scenes of the last task: whole truth, what is shown, guesses, and what is accepted."""
    here = np.flatnonzero(samples.task_of == len(samples.tasks))
    found = SizedScenes(samples, rounds.preprocessing).shown(here)
    shown = _channels(found.masks, found.mask_class_names, rounds.names)
    parts = [slice(start, start + _BATCH) for start in range(0, len(shown), _BATCH)]
    scores = [
        (rounds.logits(rounds.sent, pictures), rounds.logits(rounds.old, pictures))
        for pictures in (found.pictures[part] for part in parts)
    ]
    batches = [(*pair, shown[part]) for pair, part in zip(scores, parts, strict=True)]
    now, old = (torch.cat([pair[side] for pair in scores]) for side in (0, 1))
    columns = {"mask as shown": shown, "old model": old.argmax(dim=1)} | {
        f"accepted, rho {share}": adaptive_labels(
            now, old, shown, adaptive_thresholds(batches, share)
        )
        for share in SHARES
    }
    values = _values_of(samples.class_names, rounds.names)
    drawn = {title: values[channels.numpy()] for title, channels in columns.items()}
    return [
        SegmentedScene(
            found.pictures[row],
            {"truth": _truth(samples, int(here[found.rows[row]]), rounds.preprocessing)}
            | {title: masks[row] for title, masks in drawn.items()},
        )
        for row in _spread(len(shown))
    ]


def _last(ledger: LedgerReader, kind: type[Any]) -> Any:  # noqa: ANN401
    *_, entry = ledger.find(kind)
    return read_entry(entry.kind, entry.body)


def _spread(number: int) -> list[int]:
    return np.linspace(0, number - 1, min(SCENES, number)).astype(int).tolist()


def _truth(samples: TaskScenes, index: int, preprocessing: Preprocessing) -> NDArray[np.uint8]:
    whole = sized_mask(samples.scenes.mask(int(samples.scene_of[index])), preprocessing)
    return show_classes(whole, [label for task in samples.tasks for label in task])


def _channels(
    masks: NDArray[np.uint8], shown: Sequence[ClassName], names: Sequence[ClassName]
) -> Tensor:
    """Return masks with the network's channels in place of a device's values."""
    table = np.arange(256)
    for value, name in enumerate(shown, start=1):
        table[value] = 1 + names.index(name)
    return torch.from_numpy(table[masks])


def _values_of(class_names: Sequence[ClassName], names: Sequence[ClassName]) -> NDArray[np.uint8]:
    """Return the data set's value of each channel; what is ignored is drawn as background."""
    values = [value_of(class_names.index(name)) for name in names]
    table = np.full(256, BACKGROUND, np.uint8)
    table[: 1 + len(values)] = [BACKGROUND, *values]
    return table


if __name__ == "__main__":
    main()
