"""Packs a version of a fleet's model as files, and describes them for the ledger."""

from __future__ import annotations

from fleetledger.coordinator.core.work import ExportHead, PackImported
from fleetledger.coordinator.ledger.blobs import Blobs
from fleetledger.coordinator.models.file_offers import offer_of
from fleetledger.coordinator.models.job_runner import Finished
from fleetledger.coordinator.topics.lineages.entries import VariantSet
from fleetledger.coordinator.topics.models.entries import ImportedFiles, ModelExported
from fleetledger.export.package import ExportedModel, ModelFacts
from fleetledger.schemas.file_reference import FileReference
from fleetledger.schemas.models import Manifest
from fleetledger.schemas.variants import VariantOffer

IMPORTED = "imported"
"""What stands in a manifest for the method of a model that no method of ours made."""


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


def packed(request: PackImported, blobs: Blobs) -> Finished:
    """Store the manifest of an imported model; return the entry that names it and its files."""
    model = request.imported
    manifest = imported_manifest(model, request.version, request.index, request.time_ns)
    data = manifest.canonical_bytes()
    exported = ModelExported(
        version=request.version, manifest=offer_of(data), files=model.offers, parity=model.parity
    )
    return Finished(exported, blobs.stage([data]))


def imported_manifest(
    model: ImportedFiles, version: int, ledger_index: int, created_ns: int
) -> Manifest:
    """Return what devices are told of an imported model."""
    frozen, head, golden, scores = (
        FileReference(digest=offer.digest, size=offer.size)
        for offer in (model.frozen, model.head, model.golden, model.golden_scores)
    )
    return Manifest(
        version=version,
        method=IMPORTED,
        lineage=frozen.digest,
        frozen=frozen,
        head=head,
        golden=golden,
        golden_scores=scores,
        class_names=model.class_names,
        feature_width=model.feature_width,
        logit_scale=model.logit_scale,
        preprocessing=model.preprocessing,
        answers=model.answers,
        output_shape=model.output_shape,
        parity=model.parity,
        tolerance=model.tolerance,
        ledger_index=ledger_index,
        created_ns=created_ns,
    )


def handed_over(model: ExportedModel, blobs: Blobs, variants: VariantSet | None = None) -> Finished:
    """Store the files of a model; return the entry that names them, with those that are small.

    `variants` are those of its lineage, whose files are in the store.
    """
    manifest = model.manifest.canonical_bytes()
    exported = ModelExported(
        version=model.manifest.version,
        manifest=offer_of(manifest),
        files=tuple(offer_of(data) for data in model.files.values()),
        parity=model.manifest.parity,
        variants=offered(model.manifest, variants),
        left_out=model.left_out,
    )
    return Finished(exported, blobs.stage([manifest, *model.files.values()]))


def offered(manifest: Manifest, variants: VariantSet | None) -> tuple[VariantOffer, ...]:
    """Return the offers of the variants that a manifest pins."""
    made = () if variants is None else variants.variants
    return tuple(
        VariantOffer(name=item.name, frozen=item.frozen, replaces=manifest.frozen.digest)
        for item in made
        if manifest.variant(item.name) is not None
    )
