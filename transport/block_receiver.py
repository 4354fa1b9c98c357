"""The taking end of a block transfer: decides what to ask next, without a network or a clock.

The rules:

- it fetches the list of block hashes first and checks it against the offer; that of one block is
  in the offer already;
- it takes over every block of an old part file whose hash fits, and trusts nothing else from
  before;
- it asks for missing blocks, as many at once as the measured rate allows, and again when they do
  not come;
- where there is a topic that all devices share it listens there and takes what is sent to others,
  until what it asked for is overdue twice or the broker holds blocks back for it too long: then
  its own topic is left;
- where the blocks can be had by another way, from a web server, it takes them from there and asks
  its peer for none, until that way ends, brings a wrong block or none for too long, or is found, at
  half of the time, to be too slow for the rest;
- it hashes the whole as blocks arrive; repeats, strangers and blocks of a wrong size are counted
  and ignored;
- when all are there and the whole is right, it makes it durable and moves it to its destination;
- where the whole is wrong it holds each block to the list, asks again for those that are not of it,
  and holds all that come from then on to the list at once, as it does what comes by another way
  that is not the coordinator's;
- it ends in success or with a reason, at the latest at its deadline, or when no block came for as
  long as its patience lasts while there was a connection, and never in silence.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from fleetledger.schemas.offers import (
    HASH_BYTES,
    MAX_INDICES,
    BlockData,
    BlockRequest,
    Offer,
    Section,
)
from fleetledger.schemas.values import Digest
from fleetledger.transport.alternative_source import AlternativeBlockSource, OpenAlternative
from fleetledger.transport.errors import BlockError, FullDiskError, StalledError
from fleetledger.transport.missing_blocks import MissingBlocks
from fleetledger.transport.pacing import Pacer
from fleetledger.transport.part_file import PartFile, file_digest

log = logging.getLogger("transport.blocks")

ELSEWHERE_SECONDS = 20.0
"""For each block that comes by another way; then it is left."""
LONGEST_LAG_SECONDS = 5.0
"""By which shared blocks may come later than the quickest did; then the device is too slow."""
_MISSES = 2
"""After which a device does not listen to what is shared: it is lost on the way."""
_LIST_ATTEMPTS = 3
"""After so many wrong lists the offer, and not the network, is to blame."""


@dataclass
class BlockCounts:
    """What happened to the blocks of one transfer."""

    accepted: int = 0
    resumed: int = 0
    """Taken over from an old part file."""
    elsewhere: int = 0
    """Accepted, and come by another way."""
    shared: int = 0
    """Accepted, and sent to every device."""
    asked: int = 0
    """Requests for one block, repeats included."""
    unwanted: int = 0
    """Arrived without being missing: duplicates, late answers and strangers."""
    corrupt: int = 0


@dataclass(frozen=True)
class FetchedFile:
    """The data is whole and lies at `path`."""

    path: Path


@dataclass(frozen=True)
class FailedFetch:
    """The transfer ended without the data."""

    reason: str
    error: type[BlockError] = BlockError
    """What the reason is raised as."""


class BlockReceiver:
    """One transfer towards `destination`; see the module for its rules.

    Drive it by `requests` whenever `next_time` has come, and by `receive`, until `outcome` is set.
    Times are seconds on one clock.
    """

    def __init__(
        self,
        offer: Offer,
        destination: Path,
        *,
        now: float,
        deadline: float,
        patience: float = float("inf"),
        elsewhere: OpenAlternative | None = None,
    ) -> None:
        self.offer = offer
        self.outcome: FetchedFile | FailedFetch | None = None
        self.counts = BlockCounts()
        self._destination = destination
        self._began = now
        self._deadline = deadline
        self._patience = patience
        self._heard = now
        """When a block came that was wanted; later than now while there is no connection."""
        self._pacer = Pacer(offer.block_size)
        self._section: Section = "list"
        self._list = bytearray(offer.list_size)
        self._list_attempts = 0
        self._wanted = MissingBlocks(range(_parts(offer.list_size, offer.block_size)))
        self._part: PartFile | None = None
        self._strict = False
        """Whether each block is held to the list as it arrives."""
        self._open_elsewhere = elsewhere
        self._elsewhere: AlternativeBlockSource | None = None
        self._elsewhere_ends = float("inf")
        """When the other way is left, unless a block comes."""
        self._halfway = now + (deadline - now) / 2
        self._shares = False
        self._misses, self._excused_until = 0, 0.0
        self._quickest = float("inf")
        """Shortest time of a shared block from its sender, by clocks that may differ."""
        if destination.exists() and file_digest(destination) == offer.digest:
            self.outcome = FetchedFile(destination)

    def share(self) -> None:
        """Listen to blocks that the peer sends to all who fetch them, where there are several."""
        self._shares = self.offer.block_count > 1

    def requests(self, now: float) -> list[BlockRequest]:
        """Return what to ask for now; nothing once there is an outcome."""
        if self.outcome is None and now >= self._deadline:
            self._fail(
                f"deadline: {len(self._wanted)} of {self._parts_of_section} {self._section} blocks "
                f"missing after {now - self._began:.1f} s; offer again to resume"
            )
        if self.outcome is None and now >= self._heard + self._patience:
            self._fail(
                f"no block came for {self._patience:.0f} s, {len(self._wanted)} of "
                f"{self._parts_of_section} {self._section} blocks are missing; offer again to "
                "resume",
                StalledError,
            )
        if self.outcome is None and self._part is None:
            self._begin_with_one_block()
        self._take_from_elsewhere(now)
        if self.outcome is not None or self._elsewhere is not None:
            return []
        indices = self._wanted.choose(self._pacer, now, MAX_INDICES)
        if not indices:
            return []
        self.counts.asked += len(indices)
        repeated = self._wanted.repeated(indices)
        if repeated and now >= self._excused_until:
            self._misses += 1
            self._excused_until = now + self._pacer.retry_after
        return [
            BlockRequest(
                digest=self.offer.digest,
                block_size=self.offer.block_size,
                section=self._section,
                indices=tuple(indices),
                together=self._pacer.together,
                repeated=repeated,
                lacks_from=self._lacks_from if self.listens else None,
            )
        ]

    @property
    def listens(self) -> bool:
        """Whether blocks that are sent to every device are wanted."""
        if not self._shares or self._misses >= _MISSES or self.outcome is not None:
            return False
        return self._open_elsewhere is None and self._elsewhere is None

    @property
    def _lacks_from(self) -> int:
        if self._part is not None:
            return self._wanted.untouched_from
        return self.offer.block_count if PartFile.lies_beside(self._destination) else 0

    def next_time(self, now: float) -> float:
        """Return when `requests` should be called, if nothing arrives before."""
        ends = min(self._deadline, self._heard + self._patience)
        if self._elsewhere is not None:
            return min(ends, self._elsewhere_ends, self._halfway)
        return min(ends, self._wanted.next_time(self._pacer, now))

    def disconnected(self) -> None:
        """Be patient for as long as there is no connection: the peer cannot answer."""
        self._heard = float("inf")

    def reconnected(self, now: float) -> None:
        """Ask again at once for everything under way: the answers went with the connection."""
        self._heard = now
        self._excused_until = now + self._pacer.retry_after
        self._wanted.lapse(self._pacer, now)

    def receive(
        self,
        label: BlockData,
        blocks: bytes | memoryview,
        now: float,
        *,
        shared_at: float | None = None,
    ) -> None:
        """Take blocks that arrived in one message, those that are wanted and right.

        Of what was sent to every device, at `shared_at` by the sender's clock, all that are missing
        are wanted; else those alone that were asked for.
        """
        if self.outcome is not None or (label.digest, label.section) != (
            self.offer.digest,
            self._section,
        ):
            self.counts.unwanted += 1
            return
        if shared_at is not None:
            self._quickest = min(self._quickest, now - shared_at)
            self._shares &= now - shared_at < self._quickest + LONGEST_LAG_SECONDS
        size, first = self.offer.block_size, None
        for at in range(0, len(blocks), size):
            if self.outcome is not None:
                return
            index, block = label.index + at // size, blocks[at : at + size]
            if not self._fits(index, block, strict=self._strict):
                self.counts.corrupt += 1
                continue
            asked = self._wanted.arrived(index)
            if asked is None and (shared_at is None or not self._wanted.brought(index)):
                self.counts.unwanted += 1
                continue
            self.counts.shared += shared_at is not None
            if first is None and asked is None:
                self._pacer.came(len(block))
            elif first is None and asked is not None:
                first = asked
                self._pacer.arrived(len(blocks) - at, asked, now)
            self.counts.accepted += 1
            self._heard = now
            self._keep(index, block)

    def _take_from_elsewhere(self, now: float) -> None:
        """Begin, go on with, or leave the other way."""
        if self._open_elsewhere is not None and self._section == "data" and self.outcome is None:
            opened, self._open_elsewhere = self._open_elsewhere, None
            self._elsewhere = opened(self.offer, self._wanted.new)
            self._elsewhere_ends = now + ELSEWHERE_SECONDS
        source = self._elsewhere
        if source is None:
            return
        ended = source.ended  # asked first: what came before it ended is still to be taken
        for index, block in source.taken():
            if not self._fits(index, block, strict=self._strict or not source.believed):
                self.counts.corrupt += 1
                self._leave_elsewhere(f"block {index} is not the one that was offered")
                return
            if self._wanted.brought(index):
                self.counts.accepted += 1
                self.counts.elsewhere += 1
                self._heard, self._elsewhere_ends = now, now + ELSEWHERE_SECONDS
                self._keep(index, block)
            if self.outcome is not None:
                return
        if ended is not None:
            self._leave_elsewhere(ended)
        elif now >= self._elsewhere_ends:
            self._leave_elsewhere(f"no block came for {ELSEWHERE_SECONDS:.0f} s")
        elif now >= self._halfway:
            self._halfway = float("inf")
            if self.counts.elsewhere < len(self._wanted):
                self._leave_elsewhere("at this pace it would not be whole in time")

    def _leave_elsewhere(self, reason: str) -> None:
        source, self._elsewhere = self._elsewhere, None
        if source is not None:
            source.stop()
            if self.outcome is None and reason:
                log.info(
                    "%s: %s brings it no further, and the broker goes on: %s",
                    self.offer.digest.short,
                    source.place,
                    reason,
                )

    def abandon(self, reason: str, error: type[BlockError] = BlockError) -> None:
        """End the transfer now; the part file stays for the next attempt."""
        if self.outcome is None:
            self._fail(reason, error)

    @property
    def _parts_of_section(self) -> int:
        total = self.offer.list_size if self._section == "list" else self.offer.size
        return _parts(total, self.offer.block_size)

    def _fits(self, index: int, block: bytes | memoryview, *, strict: bool = True) -> bool:
        """Return whether a block may be kept: by its size, and where that is asked by its hash."""
        if index >= self._parts_of_section:
            return False
        whole = self.offer.list_size if self._section == "list" else self.offer.size
        if len(block) != min(self.offer.block_size, whole - index * self.offer.block_size):
            return False
        unlisted = self._section == "list" or not strict
        return unlisted or hashlib.sha256(block).digest() == self._hash(index)

    def _hash(self, index: int) -> bytes:
        return bytes(self._list[index * HASH_BYTES : (index + 1) * HASH_BYTES])

    def _keep(self, index: int, block: bytes | memoryview) -> None:
        with self._failing():
            if self._part is not None:
                self._part.write(index, block)
            else:
                start = index * self.offer.block_size
                self._list[start : start + len(block)] = block
                if not self._wanted:
                    self._check_list()
            self._end_if_whole()

    def _begin_with_one_block(self) -> None:
        """Take the list of a single block from the offer, where it is the digest of the whole."""
        known = bytes.fromhex(self.offer.digest)
        if self.offer.block_count == 1 and Digest.of(known) == self.offer.list_digest:
            with self._failing():
                self._list[:] = known
                self._begin_data()
                self._end_if_whole()

    def _end_if_whole(self) -> None:
        if self._part is not None and not self._wanted:
            if not self._part.is_right():
                self._hold_to_the_list(self._part)
            if not self._wanted:
                self.outcome = FetchedFile(self._part.finish())
                self._leave_elsewhere("it is whole")

    @contextmanager
    def _failing(self) -> Iterator[None]:
        """Fail, in words, where the disk or the offer does."""
        try:
            yield
        except OSError as error:
            self._fail(f"cannot write beside {self._destination}: {error}", FullDiskError)
        except BlockError as error:
            self._fail(str(error))

    def _hold_to_the_list(self, part: PartFile) -> None:
        """Ask again for each block that is not of the list."""
        self._strict = True
        wrong = [i for i, block in enumerate(part.blocks()) if not self._fits(i, block)]
        part.begin_again(set(range(self.offer.block_count)).difference(wrong))
        self.counts.corrupt += len(wrong)
        self.counts.accepted -= len(wrong)
        self._wanted = MissingBlocks(wrong)

    def _check_list(self) -> None:
        if Digest.of(self._list) == self.offer.list_digest:
            self._begin_data()
            return
        self._list_attempts += 1
        if self._list_attempts == _LIST_ATTEMPTS:
            raise BlockError(
                f"list_digest: the list of block hashes was wrong {_LIST_ATTEMPTS} times; the "
                "offer is wrong, or somebody changes what is sent"
            )
        self._wanted = MissingBlocks(range(self._parts_of_section))

    def _begin_data(self) -> None:
        self._part = PartFile(self.offer, self._destination)
        self._section = "data"
        missing = [i for i, block in self._part.old_blocks() if not self._fits(i, block)]
        self._part.take_over(set(range(self.offer.block_count)).difference(missing))
        self.counts.resumed = self.offer.block_count - len(missing)
        self._wanted = MissingBlocks(missing)

    def _fail(self, reason: str, error: type[BlockError] = BlockError) -> None:
        self.outcome = FailedFetch(reason, error)
        self._leave_elsewhere(reason)
        if self._part is not None:
            self._part.close()


def _parts(size: int, block_size: int) -> int:
    return -(-size // block_size)
