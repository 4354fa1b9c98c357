"""Packs a version of a fleet's model as files, and describes them for the ledger."""

from __future__ import annotations

from coordinator.core.work import ExportHead, HeadExported
from coordinator.ledger.blobs import Blobs
from coordinator.making.offering import offer_of
from coordinator.making.workshop import Finished
from coordinator.topics.models.entries import ModelExported
from export.package import ExportedModel, ModelFacts


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
