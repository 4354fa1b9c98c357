"""The files of a model, out of a coordinator's ledger and blob store, in a folder."""

from __future__ import annotations

from pathlib import Path

from fleetledger.coordinator.ledger.blobs import Blobs
from fleetledger.schemas.models import Manifest
from fleetledger.schemas.values import Digest

MANIFEST = "manifest.json"


def write_model(blobs: Blobs, manifest: Digest, folder: Path) -> Path:
    """Make `folder` hold `manifest.json` and the files it names by digest, and nothing else.

    Files that are there already are kept. Raises `BlobError` for one that the coordinator does not
    hold.
    """
    folder.mkdir(parents=True, exist_ok=True)
    data = blobs.get(manifest)
    files = {reference.digest for reference in Manifest.read(data).files}
    for path in folder.iterdir():
        if path.name not in files:
            path.unlink()
    for digest in files:
        if not (folder / digest).exists():
            (folder / f".{digest}").write_bytes(blobs.get(digest))
            (folder / f".{digest}").rename(folder / digest)
    (folder / MANIFEST).write_bytes(data)
    return folder
