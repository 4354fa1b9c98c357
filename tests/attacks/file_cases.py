"""Mix-and-match, other bytes, and data without an end."""

from __future__ import annotations

from fleetledger.schemas.models import MAX_MANIFEST_BYTES
from tests.attacks.pieces import (
    Case,
    endless_blocks,
    files,
    head,
    manifest_offer,
    misnamed,
    offers,
    released_by_manifest_of,
    resized,
    sends,
    serves_in_place_of,
    spoils,
    unreadable,
    without,
)
from tests.attacks.target import FIRST, KEY, desired, manifest_of, model, release
from tests.device_agent import model_files as models
from tests.schemas import signing

FILES = (
    Case(
        "the manifest of another model",
        "coordinator",
        lambda: sends(release(6, 3), manifest=desired(None, 1).manifest),
        "names version 3",
    ),
    Case(
        "the right manifest under another version",
        "coordinator",
        lambda: misnamed(release(6, 3)),
        "names version 3",
    ),
    Case(
        "a release whose version is not its manifest's",
        "release key",
        lambda: misnamed(signing.release(6, KEY, version=4, manifest=manifest_of(3).digest)),
        "the manifest is of version 3",
        "manifest",
    ),
    Case(
        "the files of another model",
        "coordinator",
        lambda: released_by_manifest_of(1),
        "do not belong together",
        "manifest",
    ),
    Case(
        "the head of another model among the files",
        "coordinator",
        lambda: files(*without(head(3)), *(o for o in offers(1) if o.digest == head(1))),
        "do not belong together",
        "manifest",
    ),
    Case(
        "a file too few",
        "coordinator",
        lambda: files(*without(head(3))),
        "do not belong",
        "manifest",
    ),
    Case(
        "a file too many",
        "coordinator",
        lambda: files(*offers(), models.offer_of(b"more")),
        "do not belong together",
        "manifest",
    ),
    Case(
        "a released file that is said to be longer",
        "coordinator",
        lambda: files(*resized(4 * 1024**3)),
        "do not belong together",
        "manifest",
    ),
    Case(
        "a released file that is said to be shorter",
        "coordinator",
        lambda: files(*resized(1)),
        "do not belong together",
        "manifest",
    ),
    Case(
        "other bytes in place of the manifest",
        "coordinator",
        lambda: serves_in_place_of(manifest_of(3).digest, manifest_of(4).canonical_bytes()),
        "did not come",
        "manifest",
    ),
    Case(
        "other bytes in place of the head",
        "coordinator",
        lambda: serves_in_place_of(head(3), model(4).files[head(4)]),
        "did not come",
        "files",
    ),
    Case(
        "a head that is exchanged on the device's disk",
        "device",
        spoils,
        "",
        "files",
    ),
    Case(
        "a manifest of 4 GiB",
        "coordinator",
        lambda: manifest_offer(4 * 1024**3),
        "none has more than",
    ),
    Case(
        "a manifest of one byte too many",
        "coordinator",
        lambda: manifest_offer(MAX_MANIFEST_BYTES + 1),
        "none has more than",
    ),
    Case(
        "blocks of a manifest that do not end",
        "coordinator",
        lambda: endless_blocks(manifest_of(3).digest),
        "did not come",
        "manifest",
    ),
    Case(
        "blocks of a head that do not end",
        "coordinator",
        lambda: endless_blocks(head(3)),
        "did not come",
        "files",
    ),
    Case(
        "more files than a model has",
        "coordinator",
        lambda: unreadable("files", value=[models.offer_of(b"x").model_dump(mode="json")] * 17),
        "files",
    ),
    Case(
        "more roots than are told at once",
        "coordinator",
        lambda: unreadable("roots", value=[FIRST.model_dump(mode="json")] * 13),
        "roots",
    ),
)
