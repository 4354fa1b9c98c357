"""The kind of entry that a shard of the log begins with."""

from __future__ import annotations

from typing import ClassVar

from fleetledger.coordinator.core.entry import EntryBody
from fleetledger.coordinator.core.kind import Kind, LedgerTopic, Place
from fleetledger.coordinator.topics.shards.state import LogShardState
from fleetledger.schemas.proofs.shards import SHARD_BEGAN, ShardStart


class LogShardBegan(ShardStart, EntryBody):
    """The log goes on in a new tree; the former one ended before this entry."""

    kind: ClassVar[str] = SHARD_BEGAN


def _begin(shard: LogShardState, body: LogShardBegan, at: Place) -> None:
    shard.number, shard.first = body.number, at.index


def _say_began(body: LogShardBegan, at: Place) -> str:
    return (
        f"Shard {body.number} of the log begins; shard {body.number - 1} had entries "
        f"{body.former_first} to {at.index - 1}, and ended with the root {body.former_root.short}."
    )


LOG_SHARDS = LedgerTopic("shards", kinds=(Kind(LogShardBegan, _begin, _say_began),))
