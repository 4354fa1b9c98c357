"""The model of a stage that was trained in one place, in the form of a fleet's."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy.typing as npt

from fleetledger.export.backbone import import_backbone
from fleetledger.export.golden import build_golden
from fleetledger.export.head import RowsHead
from fleetledger.export.network import export_network
from fleetledger.export.network_head import NETWORK_RULES, NetworkHead
from fleetledger.export.package import ExportedModel, Lineage, ModelFacts, pack_model
from fleetledger.learning.networks.network import Network
from fleetledger.schemas.models import AnyPreprocessing
from fleetledger.schemas.values import Digest
from fleetledger.simulator.engines.interface import Prepared
from fleetledger.simulator.engines.network_inputs import frozen_backbone
from fleetledger.simulator.scenario.trainer import trains_on_features

Arrays = Mapping[str, npt.NDArray[Any]]


def export_joint(
    prepared: Prepared, network: Network, arrays: Arrays, facts: ModelFacts
) -> ExportedModel:
    """Return a trained network as a model; raise `ModelFileError` or `ParityError`."""
    preprocessing = prepared.preprocessing
    if not trains_on_features(prepared.scenario):
        files = export_network(network, arrays, preprocessing)
        return pack_model(_lineage(files.trunk, preprocessing), facts, RowsHead(files.head))
    backbone = import_backbone(prepared.backbone, preprocessing)
    head = NetworkHead(network, arrays, backbone.feature_width)
    lineage = _lineage(frozen_backbone(backbone), preprocessing)
    return pack_model(lineage, facts, head, NETWORK_RULES)


def write_model(folder: Path, model: ExportedModel) -> Digest:
    """Write a model's files, and return the digest of its manifest."""
    folder.mkdir(parents=True, exist_ok=True)
    for digest, data in model.files.items():
        (folder / digest).write_bytes(data)
    (folder / "manifest.json").write_bytes(model.manifest.canonical_bytes())
    return model.manifest.digest


def _lineage(frozen: bytes, preprocessing: AnyPreprocessing) -> Lineage:
    return Lineage(frozen, build_golden(frozen, preprocessing), preprocessing)
