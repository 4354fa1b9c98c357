"""Sentences for entries about roots and releases."""

from __future__ import annotations

from coordinator.core.release_entries import ReleaseSigned, RootPublished
from coordinator.ledger.entries import Entry
from coordinator.round_sentences import names_of
from schemas.roots import named_keys


def root_published(body: RootPublished, _: Entry) -> str:
    """Say which keys count from here on."""
    root = body.root.document
    begins = ", which begins anew" if body.anew else ""
    return (
        f"Root version {root.version}{begins}: releases are signed by "
        f"{named_keys(root.release_keys)}; the next root by {root.threshold} of "
        f"{named_keys(root.root_keys)}."
    )


def release_signed(body: ReleaseSigned, _: Entry) -> str:
    """Say what was released, for whom, and by which key."""
    release = body.signed.release
    whom = names_of(release.devices) if release.devices else "every device"
    return (
        f"Release {release.number}: model {release.version} may be installed on {whom}, as entry "
        f"{body.action} wants it (key {body.signed.signature.key})."
    )
