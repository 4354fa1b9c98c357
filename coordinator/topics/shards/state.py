"""What the state knows of the log's shards."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class LogShardState:
    """The newest shard of the log."""

    number: int = 0
    first: int = 0
    """Index of its first entry."""
