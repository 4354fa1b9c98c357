"""The rule of the log's shards: the next one begins when the newest has as many entries as set."""

from __future__ import annotations

from fleetledger.coordinator.core.decision import Decision, record
from fleetledger.coordinator.core.entry import COORDINATOR
from fleetledger.coordinator.core.state import State
from fleetledger.coordinator.topics.shards.entries import LogShardBegan
from fleetledger.schemas.values import Digest


class Sharding:
    """Decides when a shard begins."""

    def __init__(self, shard_entries: int, state: State) -> None:
        """`shard_entries` is what a shard has at least before the next begins; 0 for one shard."""
        self._most = shard_entries
        self._state = state

    def grown(self, root: Digest) -> Decision:
        """Begin a shard if the newest is full; `root` is over its entries, all committed."""
        shard = self._state.shards
        if not self._most or self._state.size - shard.first < self._most:
            return Decision()
        began = LogShardBegan.after(shard.number, shard.first, root)
        return record(began, actor=COORDINATOR)
