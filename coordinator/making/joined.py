"""Writes a version of the model as one ONNX file, with a JSON file beside it that describes it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from coordinator.errors import CommandError
from coordinator.ledger.blobs import Blobs, BlobStore
from coordinator.ledger.reader import LedgerReader
from coordinator.paths import blob_folder, ledger_path
from coordinator.reading.tables import TABLES
from coordinator.settings import load
from export.errors import OutputFileError
from export.golden import golden_inputs
from export.joined import join_model, require_equal
from export.output_file import write_described
from export.runtime import describe_runtime
from export.signing_bundle import load_or_make_key, signed_bundle
from schemas.models import PROBABILITIES, SCORES, Manifest
from schemas.values import Digest
from schemas.whole_file import write_whole


@dataclass(frozen=True)
class JoinedModel:
    """One file that is a whole model, and what one has to know to use it."""

    manifest: Manifest
    model: bytes
    difference: float
    """Largest difference of a score to those of the pair, on the golden batch."""

    def description(self) -> dict[str, object]:
        """Return what stands in the JSON file."""
        manifest = self.manifest
        return {
            "answers": manifest.answers,
            "model": Digest.of(self.model),
            "version": manifest.version,
            "method": manifest.method,
            "manifest": manifest.digest,
            "class_names": list(manifest.class_names),
            "input": manifest.preprocessing.input_name,
            "outputs": [SCORES] if manifest.answers == "pixels" else [SCORES, PROBABILITIES],
            "logit_scale": manifest.logit_scale,
            "preprocessing": manifest.preprocessing.model_dump(mode="json"),
        }

    def write_to(self, path: Path) -> Path:
        """Write the model to `path` and its description beside it; return the latter's path.

        Files that are there are replaced. Raises `OutputFileError`.
        """
        beside = path.with_suffix(".json")
        text = json.dumps(self.description(), indent=2, ensure_ascii=False, sort_keys=True)
        write_described(path, self.model, beside, text + "\n")
        return beside

    def sign(self, path: Path, key_file: Path) -> Path:
        """Write an OpenSSF Model Signing bundle of what `write_to` wrote; return its path.

        Raises `SigningKeyError`, and `OutputFileError` where it cannot be written.
        """
        key, signature = load_or_make_key(key_file), path.with_suffix(".sig")
        name = f"{self.manifest.method}-{self.manifest.version}"
        try:
            files = {file.name: file.read_bytes() for file in (path, path.with_suffix(".json"))}
            write_whole(signature, signed_bundle(name, files, signature.name, key))
        except OSError as error:
            raise OutputFileError(f"{error.filename}: {error.strerror}") from error
        return signature

    def facts(self) -> str:
        """Return one sentence for the operator."""
        classes = f"{len(self.manifest.class_names)} classes"
        if self.manifest.answers == "pixels":
            classes = f"{len(self.manifest.class_names) - 1} classes and the background"
        return (
            f"model {self.manifest.version} for {classes}, "
            f"{len(self.model):,} bytes: scores within {self.difference:.2g} of the pair's "
            f"({describe_runtime()})"
        )


def joined_model(home: Path, version: int) -> JoinedModel:
    """Return a version as one file, also while the coordinator runs.

    Raises `CommandError` for a version that is no model, `BlobError` where a file of it cannot be
    had, and `ModelFileError` or `ParityError` where its two parts cannot become one.
    """
    with _blobs(home) as (ledger, blobs):
        manifest = Manifest.read(blobs.get(_manifest_of(ledger, version)))
        pair = (blobs.get(manifest.frozen.digest), blobs.get(manifest.head.digest))
        samples = golden_inputs(blobs.get(manifest.golden.digest))
    model = join_model(*pair)
    inputs = {manifest.preprocessing.input_name: samples}
    return JoinedModel(manifest, model, require_equal(model, pair, inputs, manifest.tolerance))


def _manifest_of(ledger: LedgerReader, version: int) -> Digest:
    found = ledger.db.execute("SELECT manifest FROM model WHERE version = ?", [version]).fetchone()
    if found is None or found[0] is None:
        state = "is not a model" if found is None else "has no files yet"
        raise CommandError(f"version: {version} {state}; see `fleetledger model list`")
    return Digest(found[0])


@contextmanager
def _blobs(home: Path) -> Iterator[tuple[LedgerReader, Blobs]]:
    store = BlobStore(load(home).blobs or blob_folder(home))
    with LedgerReader.open_read_only(ledger_path(home), TABLES) as ledger:
        yield ledger, Blobs(ledger, store)
