"""`agent forget`: deletes what training keeps of this device's images beside the images themselves.

That is the method's memory, such as exemplars and models of its own, gradients that wait for the
proxy, and the cache of features. What else waits in the outbox, the fleet's models and the images
stay. A deleted file is unlinked, not overwritten; docs/agent.md says what that means.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from fleetledger.device_agent.core.changes import Durable
from fleetledger.device_agent.core.coordinator_presence import proven_size
from fleetledger.device_agent.core.draft import Draft
from fleetledger.device_agent.core.models import files_to_keep
from fleetledger.device_agent.core.presence import forget_actions
from fleetledger.device_agent.core.records import SignedNews
from fleetledger.device_agent.core.state import AgentRecords
from fleetledger.device_agent.errors import HomeError
from fleetledger.device_agent.home.home import AgentHome, lock_home
from fleetledger.device_agent.home.store.blobs import BlobFolder
from fleetledger.device_agent.home.store.store import AgentStore
from fleetledger.device_agent.models.features.cache import cache_bytes, delete_cache
from fleetledger.device_agent.models.slots import ModelSlots
from fleetledger.runtime.count_words import count_of
from fleetledger.schemas.proxy import PrototypeGradients
from fleetledger.schemas.values import Digest


class TrainingMemory:
    """What training keeps in a home in which no agent runs."""

    def __init__(self, home: AgentHome, store: AgentStore) -> None:
        self._home = home
        self._store = store
        self._blobs = BlobFolder(home.state_folder / "blobs")
        self._slots = ModelSlots(home.state_folder / "slots")

    def describe(self) -> tuple[str, ...]:
        """Return a line for each thing that `delete` deletes; none where there is nothing."""
        records, lines = self._store.load(), []
        unneeded = self._blobs.others_than(self._needed(records))
        size = sum(file.stat().st_size for file in unneeded)
        if records.memory is not None or unneeded:
            exemplars = count_of(records.exemplars, "exemplar")
            lines.append(f"what training remembers: {exemplars}, {count_of(size, 'byte')}")
        messages = (message.body for message in records.outbox.values())
        waiting = [body for body in messages if isinstance(body, PrototypeGradients)]
        if waiting:
            size = sum(body.payload_bytes for body in waiting)
            sets = count_of(len(waiting), "set")
            lines.append(f"gradients for the proxy: {sets}, {count_of(size, 'byte')}")
        cached = cache_bytes(self._home.feature_cache)
        if cached:
            size_of_it = count_of(cached, "byte")
            lines.append(f"the cache of features: {self._home.feature_cache}, {size_of_it}")
        return tuple(lines)

    def delete(self) -> None:
        """Delete it; raise `HomeError` or `StoreError` when the disk refuses."""
        self._store.commit(self._store.load(), (Durable(forget_memory),))
        try:
            self._blobs.clean(self._needed(self._store.load()))
            delete_cache(self._home.feature_cache)
        except OSError as error:
            raise HomeError(f"{error.filename}: cannot be deleted: {error.strerror}") from error

    def _needed(self, records: AgentRecords) -> frozenset[Digest]:
        """Return the files that stay.

        The others are the memory, and what an agent that was killed left of an earlier one.
        """
        return files_to_keep(replace(records, memory=None)) | self._slots.digests()


def forget_memory(draft: Draft) -> None:
    """Forget what the method remembers, and gradients that wait for the proxy."""
    draft.memory, draft.exemplars = None, 0
    for key in [key for key in draft.outbox if key.about == "gradients"]:
        draft.take_out(key)


@contextmanager
def training_memory(home: AgentHome) -> Iterator[TrainingMemory | None]:
    """Keep agents out and give what training keeps; None where no agent has run yet.

    Raises `HomeError` while an agent runs, `StoreError` where its database cannot be read.
    """
    with store_of(home) as store:
        yield None if store is None else TrainingMemory(home, store)


def forget_checkpoint(home: AgentHome) -> str:
    """Let the ledger begin anew, shorter or another one, with its actions; say what was known.

    Raises as `training_memory` does.
    """
    with store_of(home) as store:
        records = None if store is None else store.load()
        if store is None or records is None or not (size := proven_size(records)):
            return "no state of a ledger is known here"
        seen = records.seen
        root = "" if seen is None else f" with the root {seen.root} over {seen.size}"
        store.commit(records, (Durable(forget_ledger),))
        return (
            f"forgotten: a ledger of {count_of(size, 'entry', 'entries')}{root}, and what it "
            f"asked of this device"
        )


def forget_ledger(draft: Draft) -> None:
    """Forget what the ledger has proven, and its actions."""
    draft.seen, draft.heard, draft.silent = None, SignedNews(), 0.0
    forget_actions(draft, None)


def forget_trust(home: AgentHome) -> str:
    """Let trust begin anew with the root in the agent's folder; say what was known.

    Numbers of releases that were taken are forgotten too. Raises as `training_memory` does.
    """
    with store_of(home) as store:
        records = None if store is None else store.load()
        if store is None or records is None or (records.root is None and not records.heights):
            return "no newer root and no release is known here"
        highest = max((height.number for height in records.heights.values()), default=0)
        root = "none" if records.root is None else f"version {records.root.document.version}"
        store.commit(records, (Durable(forget_root),))
        return f"forgotten: root {root}, and that release {highest} was taken"


def forget_root(draft: Draft) -> None:
    """Forget roots and releases beyond the root in the agent's folder."""
    draft.root = draft.release = None
    draft.heights.clear()


@contextmanager
def store_of(home: AgentHome) -> Iterator[AgentStore | None]:
    """Keep agents out and give the store; None where no agent has run yet.

    Raises `HomeError` while an agent runs, `StoreError` where its database cannot be read.
    """
    lock = lock_home(home.folder)
    try:
        database = home.state_folder / "agent.db"
        if not database.exists():
            yield None
            return
        store = AgentStore(database)
        try:
            yield store
        finally:
            store.close()
    finally:
        os.close(lock)
