"""Entries in one sentence each: what `fleetledger ledger show` says."""

from __future__ import annotations

from pydantic import ValidationError

from fleetledger.coordinator.core.entry import EntryBody, EntryContext
from fleetledger.coordinator.core.state import KINDS
from fleetledger.coordinator.ledger.entries import Entry
from fleetledger.schemas.errors import shorten


def sentence_of(entry: Entry) -> str:
    """Return one sentence about an entry; the fields of one that is not of this program."""
    kind = KINDS.get(entry.kind)
    if kind is None:
        return _listed(entry)
    try:
        body: EntryBody = kind.body.model_validate(entry.body)
    except ValidationError:
        return _listed(entry)  # written by another version of this program
    return body.say(EntryContext(entry.index, entry.device, entry.time_ns))


def _listed(entry: Entry) -> str:
    about = f" about {entry.device}" if entry.device and entry.device != entry.actor else ""
    fields = ", ".join(f"{name} = {shorten(value)}" for name, value in entry.body.items())
    return f"{entry.actor} recorded {entry.kind}{about}" + (f": {fields}" if fields else "")
