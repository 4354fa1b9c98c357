"""Keeps few agents in memory: the one that was stepped longest ago goes to rest."""

from __future__ import annotations

from typing import Protocol


class Restful(Protocol):
    """Something that can be put to rest, and wakes by itself."""

    def rest(self) -> None:
        """Go to the disk."""


class Swapper:
    """At most `most` agents are awake, beside the one that is being stepped."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._awake: dict[Restful, None] = {}

    def stepped(self, agent: Restful) -> None:
        """Note that an agent is awake and was just stepped; of too many, put one to rest."""
        self._awake.pop(agent, None)
        self._awake[agent] = None
        while len(self._awake) > self._most:
            first = next(iter(self._awake))
            del self._awake[first]
            first.rest()

    def forget(self, agent: Restful) -> None:
        """Note that an agent is not awake any more."""
        self._awake.pop(agent, None)
