"""What devices remember between rounds: files by digest in a store, and an index of whose they are.

Only one memory is in this process at a time, and workers on other machines reach them, too. A
memory stays until the round after it is closed: so a run that was killed in a round trains it again
from the memories before it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from pydantic import ValidationError

from fleetledger.coordinator.ledger.blobs import BlobStore
from fleetledger.runtime.strict import Strict
from fleetledger.schemas.values import DeviceId, Digest
from fleetledger.simulator.errors import EngineError
from fleetledger.simulator.run.durable import replace_file


class _Written(Strict):
    """A line of the index."""

    device: DeviceId
    round: int
    memory: Digest


class Memories:
    """The memories in `store`, told apart by the file `index`; `is_closed` says whether a round is.

    A torn last line is of a round that is trained again.
    """

    def __init__(self, store: BlobStore, index: Path, is_closed: Callable[[int], bool]) -> None:
        self._store = store
        self._newest: dict[DeviceId, _Written] = {}
        self._written: list[_Written] = []
        self._holders: Counter[Digest] = Counter()
        """How many devices remember the same."""
        for line in _lines(index):
            self._hold(line)
            if is_closed(line.round):
                self._replace(line)
            else:
                self._let_go(line)
        index.parent.mkdir(parents=True, exist_ok=True)
        kept = "".join(f"{line.model_dump_json()}\n" for line in self._newest.values())
        replace_file(index, kept.encode())
        self._index = index.open("a", encoding="utf-8", buffering=1)

    def newest(self, device: DeviceId) -> Digest | None:
        """Return the digest of what a device remembers; None for nothing yet."""
        line = self._newest.get(device)
        return None if line is None else line.memory

    def written(self, device: DeviceId, number: int, memory: Digest) -> None:
        """Note what the store has of a round; `settle` makes it the newest."""
        line = _Written(device=device, round=number, memory=memory)
        self._index.write(f"{line.model_dump_json()}\n")
        self._hold(line)
        self._written.append(line)

    def settle(self) -> None:
        """Forget what was before: the round that wrote is closed."""
        for line in self._written:
            self._replace(line)
        self._written.clear()

    def close(self) -> None:
        """Close the index."""
        self._index.close()

    def _replace(self, line: _Written) -> None:
        before = self._newest.get(line.device)
        self._newest[line.device] = line
        if before is not None:
            self._let_go(before)

    def _hold(self, line: _Written) -> None:
        self._holders[line.memory] += 1

    def _let_go(self, line: _Written) -> None:
        self._holders[line.memory] -= 1
        if not self._holders[line.memory]:
            del self._holders[line.memory]
            self._store.delete(line.memory)


def _lines(index: Path) -> Iterator[_Written]:
    """Yield what an index says; raise `EngineError` for one that is no index."""
    if not index.is_file():
        return
    lines = index.read_text(encoding="utf-8").splitlines(keepends=True)
    for number, line in enumerate(lines, start=1):
        if not line.endswith("\n"):
            return
        try:
            yield _Written.model_validate_json(line)
        except ValidationError as error:
            raise EngineError(
                f"{index}: line {number} says nothing of a memory; begin the run again elsewhere"
            ) from error
