"""Variants of the leading frozen model, with their loss behind the newest head."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from fleetledger.coordinator.core.state_fold import state_of
from fleetledger.coordinator.errors import CommandError
from fleetledger.coordinator.ledger.blobs import Blobs, BlobStore
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.models.file_offers import offer_of
from fleetledger.coordinator.paths import blob_folder, ledger_path
from fleetledger.coordinator.settings import load
from fleetledger.coordinator.topics.lineages.entries import (
    BackboneImported,
    MadeVariant,
    VariantSet,
)
from fleetledger.export.golden import read_golden
from fleetledger.export.package import LineageVariants
from fleetledger.export.runtime import describe_runtime
from fleetledger.export.variants import gate
from fleetledger.export.variants.calibration import read_images
from fleetledger.export.variants.feature_distance import VariantFeatures, features_of, strays
from fleetledger.export.variants.variant_maker import made_variants
from fleetledger.runtime.count_words import count_of
from fleetledger.schemas.file_reference import FileReference
from fleetledger.schemas.models import Manifest
from fleetledger.schemas.values import Digest
from fleetledger.schemas.variants import VariantName

Read = Callable[[Digest], bytes]


@dataclass(frozen=True)
class PreparedVariants:
    """Variants whose files are stored, and what became of them behind the newest model's head."""

    made: VariantSet
    model: int | None
    """The newest model of the lineage; None where there is none yet."""
    judged: gate.JudgedVariants

    def told(self) -> Iterator[str]:
        """Yield what the operator is told of them."""
        made = self.made
        yield (
            f"calibrated on {count_of(made.calibrated, 'image')}, measured on "
            f"{count_of(made.held_out, 'other')} ({made.tools['onnxruntime']})"
        )
        for item in made.variants:
            yield _told_of_file(item)
        for variant in self.judged.admitted:
            yield f"behind model {self.model}, {variant.name} {gate.told(variant)}"
        yield from self.judged.left_out
        if self.model is None:
            yield "there is no model yet: each is measured when it is exported"


def variants_of(made: VariantSet | None, read: Read) -> LineageVariants | None:
    """Return what a head is measured by; None where the lineage has no variants."""
    if made is None or made.features is None:
        return None
    return LineageVariants(_files_of(made), VariantFeatures.read(read(made.features)))


def no_variants(home: Path) -> VariantSet:
    """Return what ends the variants of the leading frozen model; raise `CommandError`."""
    with LedgerReader.open_read_only(ledger_path(home)) as ledger:
        return VariantSet(lineage=_leading(ledger).frozen.digest, variants=())


def prepare_variants(home: Path, folder: Path, names: Sequence[VariantName]) -> PreparedVariants:
    """Make variants of the leading frozen model on the images of a folder, and store them.

    Behind the newest model's head those that lose too much are left out; where that is all of them
    nothing is stored. Raises `CommandError`, `CalibrationError` or `ModelFileError`.
    """
    store = BlobStore(load(home).blobs or blob_folder(home))
    with LedgerReader.open_read_only(ledger_path(home)) as ledger:
        blobs = Blobs(ledger, store)
        backbone = _leading(ledger)
        frozen, golden = (blobs.get(item.digest) for item in (backbone.frozen, backbone.golden))
        newest = _newest_head(ledger, backbone, blobs.get)
    images = read_images(folder, backbone.preprocessing)
    input_name = backbone.preprocessing.input_name
    files = made_variants(frozen, input_name, images.calibration, names)
    read = read_golden(golden)
    features = features_of(frozen, files, input_name, images.held_out, images.class_names, read)
    made = _described(backbone, files, features, len(images.calibration))
    judged = gate.NO_VARIANTS
    if newest is not None:
        judged = gate.judge(_files_of(made), features, newest.head, read)
        made = _without(made, judged)
    for data in (*files.values(), features.file()):
        store.put(data)
    return PreparedVariants(made, None if newest is None else newest.manifest.version, judged)


def shown(home: Path) -> Iterator[str]:
    """Yield which variants the leading frozen model has, and what they lose behind the newest head.

    Raises `CommandError` where no frozen model leads.
    """
    store = BlobStore(load(home).blobs or blob_folder(home))
    with LedgerReader.open_read_only(ledger_path(home)) as ledger:
        backbone = _leading(ledger)
        made = state_of(ledger).lineages.variants
        newest = _newest_head(ledger, backbone, Blobs(ledger, store).get)
    if made is None:
        yield f"frozen model {backbone.frozen.digest.short} ({backbone.name}) has no variants"
        return
    for item in made.variants:
        yield _told_of_file(item)
    if newest is None:
        return
    for variant in newest.manifest.variants:
        yield f"in model {newest.manifest.version}, {variant.name} {gate.told(variant)}"
    names = {variant.name for variant in newest.manifest.variants}
    for item in made.variants:
        if item.name not in names:
            yield f"model {newest.manifest.version} has no {item.name}: `fleetledger ledger tail`"


def _told_of_file(item: MadeVariant) -> str:
    return (
        f"{item.name}: {item.frozen.digest.short}, {item.frozen.size:,} bytes; its features stray "
        f"by {item.strays:.1%} from the reference's"
    )


def _described(
    backbone: BackboneImported,
    files: dict[VariantName, bytes],
    features: VariantFeatures,
    calibrated: int,
) -> VariantSet:
    variants = tuple(
        MadeVariant(
            name=name,
            frozen=offer_of(data),
            strays=strays(features.variants[name], features.reference),
        )
        for name, data in files.items()
    )
    return VariantSet(
        lineage=backbone.frozen.digest,
        variants=variants,
        features=Digest.of(features.file()),
        calibrated=calibrated,
        held_out=len(features.reference),
        tools={"onnxruntime": describe_runtime(), "onnx": version("onnx")},
    )


def _without(made: VariantSet, judged: gate.JudgedVariants) -> VariantSet:
    """Return the variants that were admitted; raise `CommandError` where none was."""
    names = {variant.name for variant in judged.admitted}
    if not names:
        raise CommandError(f"variants: {'; '.join(judged.left_out)}; nothing was changed")
    kept = tuple(variant for variant in made.variants if variant.name in names)
    return made.model_copy(update={"variants": kept})


def _files_of(made: VariantSet) -> tuple[gate.VariantFile, ...]:
    return tuple(
        gate.VariantFile(item.name, FileReference(digest=item.frozen.digest, size=item.frozen.size))
        for item in made.variants
    )


def _leading(ledger: LedgerReader) -> BackboneImported:
    """Return the frozen model that leads; raise `CommandError` where none does."""
    backbone = state_of(ledger).lineages.backbone
    if backbone is None:
        raise CommandError(
            "variants: the fleet learns on no frozen model now, so there is none to make variants "
            "of; `fleetledger model import-backbone FILE --preprocessing FILE` brings one"
        )
    return backbone


@dataclass(frozen=True)
class _NewestHead:
    manifest: Manifest
    head: gate.HeadToJudge


def _newest_head(
    ledger: LedgerReader, backbone: BackboneImported, read: Read
) -> _NewestHead | None:
    """Return the head of the lineage's newest model; None where there is none yet."""
    known = state_of(ledger).models.all_learned
    found = [one.exported for one in known if one.digest == backbone.frozen.digest]
    newest = next(filter(None, reversed(found)), None)
    if newest is None:
        return None
    manifest = Manifest.read(read(newest.manifest.digest))
    head = gate.HeadToJudge(read(manifest.head.digest), manifest.class_names, manifest.tolerance)
    return _NewestHead(manifest, head)
