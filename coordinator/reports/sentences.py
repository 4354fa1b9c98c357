"""One sentence for each kind of entry: what `fleetledger ledger show` says."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from fleetledger.coordinator.core.kind import EntryContext, Kind
from fleetledger.coordinator.core.state import KINDS
from fleetledger.coordinator.ledger.describe import Sentence, listed
from fleetledger.coordinator.ledger.entries import Entry


def _sentence(kind: Kind[Any, Any]) -> Sentence:
    def sentence(entry: Entry) -> str:
        try:
            body = kind.body.model_validate(entry.body)
        except ValidationError:
            return listed(entry)  # written by another version of this program
        return kind.say(body, EntryContext(entry.index, entry.device, entry.time_ns))

    return sentence


SENTENCES: dict[str, Sentence] = {name: _sentence(kind) for name, kind in KINDS.items()}
"""Kind of entry to the function that says it."""
