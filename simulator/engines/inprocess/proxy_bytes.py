"""What went to a proxy in a stage: as its transport counted it, beside what the ledger tells."""

from __future__ import annotations

from collections.abc import Iterable

from coordinator.core import entries
from simulator.records import ProxyRecord
from simulator.virtual.proxy import ProxyTraffic


def proxy_record(bodies: Iterable[entries.EntryBody], traffic: ProxyTraffic) -> ProxyRecord:
    """Return the record, given a stage's entries and what was carried meanwhile."""
    weights, scored = 0, 0
    for body in bodies:
        if isinstance(body, entries.ContributionAccepted) and body.answer is not None:
            weights += body.payload_bytes
        elif isinstance(body, entries.OldModelChosen) and body.newest is not None:
            scored += 1
    return ProxyRecord(
        gradient_bytes=traffic.devices.bytes_down,
        weight_bytes=weights,
        scored=scored,
        model_bytes=traffic.coordinator.bytes_down,
    )
