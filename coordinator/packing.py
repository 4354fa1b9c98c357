"""Packs a version of a fleet's model as files, and describes them for the ledger."""

from __future__ import annotations

from dataclasses import replace

from coordinator.core.entries import ModelExported, NetworkImported
from coordinator.core.inputs import HeadExported
from coordinator.core.requests import ExportHead
from coordinator.ledger.blobs import Blobs
from coordinator.offering import offer_of
from coordinator.workshop import Finished
from export.dense_package import pack_dense
from export.golden import build_golden
from export.head import RowsHead
from export.network import export_network
from export.network_head import NETWORK_RULES, NetworkHead
from export.package import ExportedModel, Lineage, ModelFacts, pack_model
from export.segmentation import export_segmentation
from learning.networks.network import AnyNetwork
from learning.networks.segmentation.network import SegmentationNetwork
from methods.network_weights import Arrays, decode_base
from methods.registry import load_training_coordinator
from schemas.models import BACKGROUND, of_pictures
from schemas.values import ClassName


def facts_of(request: ExportHead, logit_scale: float) -> ModelFacts:
    """Return what a manifest says of a version; `logit_scale` counts where none was fitted."""
    solved = request.solved
    return ModelFacts(
        version=solved.version,
        method=solved.method,
        class_names=solved.class_names,
        ledger_index=request.solved_index,
        created_ns=request.solved_ns,
        logit_scale=request.logit_scale or logit_scale,
    )


def pack_network(request: ExportHead, lineage: NetworkImported, blobs: Blobs) -> ExportedModel:
    """Return a trained network as files: behind its backbone, or as trunk and rows of its own."""
    half = load_training_coordinator(lineage.method)
    assignment = half.read_assignment(lineage.settings)
    facts = facts_of(request, assignment.logit_scale)
    network, arrays, _ = half.network_of(assignment, blobs.get(request.solved.head))
    if isinstance(network, SegmentationNetwork):
        return _pack_pixels(facts, network, arrays, lineage, blobs)
    preprocessing = lineage.preprocessing
    if lineage.backbone is not None:
        frozen = blobs.get(lineage.backbone.frozen.digest)
        shared = Lineage(frozen, blobs.get(lineage.golden.digest), preprocessing)
        head = NetworkHead(network, arrays, lineage.backbone.feature_width)
        return pack_model(shared, facts, head, NETWORK_RULES)
    base = base_of(lineage, network, blobs)
    files = export_network(network, arrays, preprocessing, base)
    own = Lineage(files.trunk, build_golden(files.trunk, preprocessing), preprocessing)
    return pack_model(own, facts, RowsHead(files.head))


def _pack_pixels(
    facts: ModelFacts,
    network: SegmentationNetwork,
    arrays: Arrays,
    lineage: NetworkImported,
    blobs: Blobs,
) -> ExportedModel:
    """Return a network that gives every pixel a class as files: trunk and dense head."""
    files = export_segmentation(network, arrays, of_pictures(lineage.preprocessing))
    shared = Lineage(files.trunk, blobs.get(lineage.golden.digest), lineage.preprocessing)
    named = replace(facts, class_names=(ClassName(BACKGROUND), *facts.class_names))
    return pack_dense(shared, named, files.head)


def base_of(lineage: NetworkImported, network: AnyNetwork, blobs: Blobs) -> Arrays:
    """Return the network's tensors that nobody trains; none where all are trained."""
    return {} if lineage.base is None else decode_base(blobs.get(lineage.base.digest), network)


def handed_over(model: ExportedModel, blobs: Blobs) -> Finished:
    """Store the files of a model; return the entry that names them, with those that are small."""
    manifest = model.manifest.canonical_bytes()
    exported = ModelExported(
        version=model.manifest.version,
        manifest=offer_of(manifest),
        files=tuple(offer_of(data) for data in model.files.values()),
        parity=model.manifest.parity,
    )
    return Finished(HeadExported(exported), blobs.stage([manifest, *model.files.values()]))
