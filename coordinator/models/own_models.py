"""Import of a model of the operator's own: an ONNX file becomes the pair that devices run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fleetledger.coordinator.errors import BackboneFileError
from fleetledger.coordinator.ledger.blobs import BlobStore
from fleetledger.coordinator.models.backbones import limits_of
from fleetledger.coordinator.models.file_offers import offer_of
from fleetledger.coordinator.models.model_package import imported_manifest
from fleetledger.coordinator.paths import blob_folder
from fleetledger.coordinator.settings import load
from fleetledger.coordinator.topics.models.entries import ImportedFiles
from fleetledger.export.class_file import load_class_names
from fleetledger.export.judging import judged_model
from fleetledger.export.model_file import read_model_file
from fleetledger.export.own_model import OwnModelRequest
from fleetledger.export.preprocessing_file import load_preprocessing
from fleetledger.export.rules import STANDARD_DOMAINS
from fleetledger.schemas.file_reference import FileReference
from fleetledger.schemas.models import Answers, Gives

_MAX_SAMPLES = 8
_MAX_SAMPLE_BYTES = 64 * 1024**2


@dataclass(frozen=True)
class OwnModelFiles:
    """What the operator gives of a model of their own."""

    file: Path
    preprocessing: Path
    classes: Path | None = None
    """The names of the scores; None where a raw output has none."""
    answers: Answers = "sample"
    output: str | None = None
    split: str | None = None
    golden: Path | None = None
    """A sample, or a folder of samples, that may travel to every device."""
    domains: tuple[str, ...] = ()
    """Operator domains that devices allow beside the standard one."""
    gives: Gives | None = None
    """What its numbers are; None to look at what comes out."""


def prepare_own_model(home: Path, given: OwnModelFiles) -> ImportedFiles:
    """Check a model, cut it into the pair, run both, store the files and describe them.

    Nothing is stored of what is refused. Raises `BackboneFileError`, `ClassFileError`,
    `PreprocessingFileError`, `ModelFileError` or `ParityError` naming what is wrong.
    """
    settings = load(home)
    data = read_model_file(given.file)
    wanted = OwnModelRequest(
        preprocessing=load_preprocessing(given.preprocessing),
        class_names=() if given.classes is None else load_class_names(given.classes),
        answers=given.answers,
        output=given.output,
        split=given.split,
        samples=list(_samples(given.golden)),
        domains=STANDARD_DOMAINS | set(given.domains),
        gives=given.gives,
    )
    if not wanted.class_names and given.answers != "raw":
        raise BackboneFileError(
            f"classes: left out, and {given.file} answers {given.answers!r}; give --classes FILE "
            "with a name a line, or --answers raw for an output that is read by your own program"
        )
    made = judged_model(data, wanted, limits_of(settings))
    files = (made.frozen, made.head, made.golden, made.golden_scores)
    frozen, head, golden, golden_scores = (offer_of(file) for file in files)
    model = ImportedFiles(
        name=given.file.name,
        file=FileReference.of(data),
        frozen=frozen,
        head=head,
        golden=golden,
        golden_scores=golden_scores,
        class_names=wanted.class_names,
        preprocessing=wanted.preprocessing,
        answers=wanted.answers,
        output_shape=made.output_shape,
        feature_width=made.feature_width,
        cut=made.cut,
        parity=made.parity,
        tolerance=made.tolerance,
        remarks=made.remarks,
    )
    imported_manifest(model, version=1, ledger_index=0, created_ns=0)  # it can be written
    store = BlobStore(settings.blobs or blob_folder(home))
    for file in files:
        store.put(file)
    return model


def describe_import(model: ImportedFiles) -> Iterator[str]:
    """Yield what the operator is told of a model that can be taken in."""
    parity, counted = model.parity, "pixels" if model.answers == "pixels" else "samples"
    yield (
        f"cut at {model.cut}: frozen part {model.frozen.digest.short}, {model.frozen.size:,} bytes;"
        f" head {model.head.digest.short}, {model.head.size:,} bytes"
    )
    yield (
        f"the pair follows {model.name} within {parity.max_absolute_difference:.2g} on "
        f"{parity.samples} {counted} ({parity.runtime})"
    )
    yield from (f"note: {remark}" for remark in model.remarks)


def _samples(golden: Path | None) -> Iterator[bytes]:
    """Yield the operator's own samples for the golden batch; raise `BackboneFileError`."""
    if golden is None:
        return
    paths = [golden]
    if golden.is_dir():
        paths = sorted(path for path in golden.iterdir() if path.is_file())
        paths = [path for path in paths if not path.name.startswith(".")][:_MAX_SAMPLES]
    if not paths:
        raise BackboneFileError(f"golden: {golden} is empty; give pictures that may be seen by all")
    for path in paths:
        try:
            data = path.read_bytes()
        except OSError as error:
            raise BackboneFileError(f"golden: {path}: cannot be read: {error.strerror}") from error
        if not data or len(data) > _MAX_SAMPLE_BYTES:
            raise BackboneFileError(
                f"golden: {path} has {len(data)} bytes; give a picture or text of 1 to "
                f"{_MAX_SAMPLE_BYTES}"
            )
        yield data
