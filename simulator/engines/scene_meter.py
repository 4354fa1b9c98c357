"""How well a network that gives pixels classes answers, while it is still being trained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fleetledger.learning.networks.segmentation.network import SegmentationNetwork
from fleetledger.schemas.models import Preprocessing
from fleetledger.schemas.values import ClassName
from fleetledger.simulator.datasets.labels import samples_of
from fleetledger.simulator.datasets.segmentation.masks import show_classes
from fleetledger.simulator.datasets.segmentation.samples import BACKGROUND, SceneSet, value_of
from fleetledger.simulator.metrics.segmentation import PixelCounts, score_stage
from fleetledger.simulator.virtual.scenes import sized_scene

if TYPE_CHECKING:
    import torch

    from fleetledger.learning.networks.torch_layers import Tensors

Pixels = NDArray[np.uint8]
MOST_SCENES = 64
"""Test scenes of a measurement; of more with the classes seen, evenly many over all of them."""
_BATCH = 4


@dataclass(frozen=True)
class Rows:
    """A network with its tensors, and the class of each row of its head but the first."""

    network: SegmentationNetwork
    parameters: Tensors
    buffers: Tensors
    names: Sequence[ClassName]


def mean_iou(
    rows: Rows,
    scenes: SceneSet,
    preprocessing: Preprocessing,
    seen: Sequence[int],
    device: torch.device,
) -> float:
    """Return the mIoU (0 to 1) over background and the classes `seen` on some of the scenes.

    Raises `DatasetError` for a scene that cannot be used.
    """
    names = scenes.class_names
    values = [value_of(names.index(name)) for name in rows.names]
    value_of_row = np.array([BACKGROUND, *values], np.uint8)
    counts = PixelCounts.none(len(names))
    chosen = chosen_scenes(scenes, seen)
    for first in range(0, len(chosen), _BATCH):
        indices = chosen[first : first + _BATCH].tolist()
        sized = [sized_scene(scenes, index, preprocessing) for index in indices]
        pictures, masks = (np.stack(part) for part in zip(*sized, strict=True))
        said = value_of_row[_best_rows(rows, preprocessing, pictures, device)]
        counts += PixelCounts.of(show_classes(masks, seen), said, len(names))
    return score_stage(counts, [seen]).all


def chosen_scenes(scenes: SceneSet, seen: Sequence[int]) -> NDArray[np.int64]:
    """Return the scenes that are measured, ascending; they show any of the classes `seen`."""
    asked = samples_of(scenes.labels, seen)
    places = np.linspace(0, len(asked) - 1, min(len(asked), MOST_SCENES)).round().astype(np.int64)
    chosen: NDArray[np.int64] = asked[places]
    return chosen


def _best_rows(
    rows: Rows, preprocessing: Preprocessing, pictures: Pixels, device: torch.device
) -> NDArray[np.int64]:
    """Return the row with the best score of each pixel, (n, H, W)."""
    import torch  # noqa: PLC0415 - heavy, and optional

    from fleetledger.learning.networks.conversion import brought_home  # noqa: PLC0415 - needs torch
    from fleetledger.learning.networks.inference import Inference  # noqa: PLC0415 - needs torch
    from fleetledger.learning.networks.pictures import Pictures  # noqa: PLC0415 - needs torch
    from fleetledger.learning.networks.segmentation.torch_layers import DensePass  # noqa: PLC0415 - as above
    from fleetledger.learning.networks.torch_layers import Mode  # noqa: PLC0415 - as above

    network = DensePass(rows.network)
    infer = Inference(_BATCH, Pictures(preprocessing.mean, preprocessing.deviation))
    found = infer.over(
        lambda batch: network(rows.parameters, rows.buffers, batch, Mode())[0].logits.argmax(dim=1),
        torch.from_numpy(pictures).to(device),
    )
    best: NDArray[np.int64] = np.concatenate([brought_home(part).numpy() for part in found])
    return best
