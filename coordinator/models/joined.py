"""Writes a version of the model as one ONNX file, with a JSON file beside it that describes it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import onnx

from fleetledger.coordinator.core.state_fold import state_of
from fleetledger.coordinator.errors import CommandError
from fleetledger.coordinator.ledger.blobs import Blobs, BlobStore
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.paths import blob_folder, ledger_path
from fleetledger.coordinator.settings import load
from fleetledger.coordinator.topics.models.queries import one_version
from fleetledger.export.errors import OutputFileError
from fleetledger.export.golden import golden_inputs
from fleetledger.export.joined import join_model, require_equal
from fleetledger.export.output_file import write_described
from fleetledger.export.rules import STANDARD_DOMAINS, domains_of
from fleetledger.export.runtime import describe_runtime
from fleetledger.export.signing_bundle import load_or_make_key, signed_bundle
from fleetledger.runtime.whole_file import write_whole
from fleetledger.schemas.models import Manifest
from fleetledger.schemas.values import Digest


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
        model = onnx.load_from_string(self.model)
        beyond = sorted(domains_of(self.model) - STANDARD_DOMAINS)
        return {
            **({"domains": beyond} if beyond else {}),
            **({"output_shape": manifest.output_shape} if manifest.answers == "raw" else {}),
            "answers": manifest.answers,
            "model": Digest.of(self.model),
            "version": manifest.version,
            "method": manifest.method,
            "manifest": manifest.digest,
            "class_names": list(manifest.class_names),
            "input": manifest.preprocessing.input_name,
            "outputs": [value.name for value in model.graph.output],
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
        manifest = self.manifest
        known = len(manifest.class_names) - (manifest.answers == "pixels")
        classes = f"{known} {'class' if known == 1 else 'classes'}"
        made = {
            "sample": f"for {classes}",
            "pixels": f"for {classes} and the background",
            "raw": f"with an output of {' x '.join(map(str, manifest.output_shape))} numbers",
        }[manifest.answers]
        return (
            f"model {manifest.version} {made}, "
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
    model = join_model(*pair, domains_of(pair[0]) | domains_of(pair[1]))
    inputs = {manifest.preprocessing.input_name: samples}
    return JoinedModel(manifest, model, require_equal(model, pair, inputs, manifest.tolerance))


def _manifest_of(ledger: LedgerReader, version: int) -> Digest:
    exported = one_version(state_of(ledger).models, version).exported
    if exported is None:
        raise CommandError(f"version: {version} has no files yet; see `fleetledger model list`")
    return exported.manifest.digest


@contextmanager
def _blobs(home: Path) -> Iterator[tuple[LedgerReader, Blobs]]:
    store = BlobStore(load(home).blobs or blob_folder(home))
    with LedgerReader.open_read_only(ledger_path(home)) as ledger:
        yield ledger, Blobs(ledger, store)
