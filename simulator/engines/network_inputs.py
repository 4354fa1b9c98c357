"""What a network that is trained sees of the samples of a split: pictures, or features of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from fleetledger.export.backbone import ImportedBackbone, import_backbone
from fleetledger.export.frozen import plain_frozen
from fleetledger.schemas.models import Preprocessing, of_networks
from fleetledger.simulator.engines.interface import Prepared
from fleetledger.simulator.features.interface import Indices, own_features
from fleetledger.simulator.scenario.trainer import trains_on_features
from fleetledger.simulator.virtual.scenes import sized_samples

if TYPE_CHECKING:
    from fleetledger.learning.networks.pictures import Pictures

Inputs = Callable[[Indices], npt.NDArray[Any]]


@dataclass(frozen=True)
class SampleInputs:
    """Inputs of samples by index: uint8 pictures (n, c, h, w), or float32 arrays or features."""

    shape: tuple[int, ...]
    """Of one input."""
    train: Inputs
    test: Inputs
    preprocessing: Preprocessing | None
    """How pictures become numbers; None for arrays and features, which are numbers."""

    def pictures(self) -> Pictures | None:
        """Return what turns uint8 pictures into inputs; imports torch."""
        from fleetledger.learning.networks.pictures import Pictures  # noqa: PLC0415 - needs torch

        spec = self.preprocessing
        return None if spec is None else Pictures(spec.mean, spec.deviation)


def inputs_of(prepared: Prepared) -> SampleInputs:
    """Return what the network of a scenario sees; raise `ModelFileError` for a bad backbone."""
    split, preprocessing = prepared.split, prepared.preprocessing
    if trains_on_features(prepared.scenario):
        backbone = import_backbone(prepared.backbone, preprocessing)
        features = prepared.features.frozen(own_features(frozen_backbone(backbone)))
        return SampleInputs((backbone.feature_width,), features.train, features.test, None)
    spec = of_networks(preprocessing)
    train, test = (sized_samples(part, spec) for part in (split.train, split.test))
    pictures = spec if isinstance(spec, Preprocessing) else None
    return SampleInputs(spec.shape, train, test, pictures)


def frozen_backbone(backbone: ImportedBackbone) -> bytes:
    """Return the first file of a model whose network is trained on a backbone's features."""
    return plain_frozen(backbone.model)
