"""Outcome of a rollout in a sentence."""

from __future__ import annotations

from fleetledger.runtime.count_words import count_of
from fleetledger.simulator.report.numbers import count, show
from fleetledger.simulator.rollouts.record import RolloutRecord


def verdict_sentence(record: RolloutRecord) -> str:
    """Return what became of a rollout, and how many devices ran the candidate meanwhile."""
    ran = f"{count(record.ever)} of {count_of(record.devices, 'device')} ever ran it"
    what = f"Model {record.version} ({record.candidate})"
    why = f": {record.reason.rstrip('.')}" if record.reason else ""
    ended = "is still going out" if record.end == "open" else f"was {record.end}"
    if record.end == "finished":
        ended = "has passed all groups"
    return f"{what} {ended}{why}. {ran}; it took {show(record.seconds, 'seconds')}."
