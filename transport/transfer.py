"""Fetching and serving blocks over a connection of its own, so that control messages never wait.

One thread owns everything: it reads events, answers requests a block at a time, in turn between
those who ask, and drives the transfers. Agent and coordinator use the same class; only the side of
the topics differs. Whoever has a loop of their own calls `begin`, then `turn` when something came
or `due` says so, and never `start`.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

from fleetledger.runtime.errors import SchemaError
from fleetledger.schemas.envelope import Sender
from fleetledger.schemas.offers import BlockData, BlockRefusal, BlockRequest, Offer
from fleetledger.schemas.topics import FleetTopics
from fleetledger.schemas.values import DeviceId, Digest
from fleetledger.transport.alternative_source import (
    AlternativeBlockSource,
    HttpsRules,
    OwnHostReach,
)
from fleetledger.transport.block_replies import BlockReplies
from fleetledger.transport.block_source import BlockSource
from fleetledger.transport.block_wire import BlockWire
from fleetledger.transport.clock import SYSTEM_CLOCK, Clock
from fleetledger.transport.errors import BlockError, ThreadEndedError, TlsError, TransportError
from fleetledger.transport.fetches import Fetch, Fetches
from fleetledger.transport.interface import (
    Connected,
    Connection,
    ConnectionProblem,
    Disconnected,
    Event,
    IncomingMessage,
    OutgoingMessage,
)
from fleetledger.transport.meter import Counts
from fleetledger.transport.shared_blocks import Audience, SharedBlocks

log = logging.getLogger("transport.blocks")

_LONGEST_WAIT_SECONDS = 1.0
_FULL_QUEUE_SECONDS = 0.005
_EVENTS_PER_TURN = 16
_PATIENCE_SECONDS = 15.0
"""For one of many peers that sends no block, because it keeps a place from the others."""


@dataclass(frozen=True, slots=True)
class Party:
    """Who exchanges: the sender of its messages, and the device whose side it is."""

    topics: FleetTopics
    sender: Sender
    device: DeviceId | None = None
    https: HttpsRules | None = None
    """From where else it may fetch; None for nowhere."""

    @property
    def role(self) -> str:
        """Name of its connection among those of its program."""
        return self.topics.branch or "data"


class Exchange(Protocol):
    """What a device's program needs of a block exchange; `BlockExchange` says what each does."""

    on_failure: Callable[[Exception], None] | None
    """Told of an error that ended it."""

    def start(self) -> None:
        """Begin."""

    def stop(self) -> None:
        """End."""

    def serve(self, data: bytes | Path | BlockSource) -> Offer:
        """Answer requests for `data` from now on."""

    def source(self, digest: Digest) -> BlockSource | None:
        """Return what requests for this data are answered from."""

    def withdraw_all_but(self, keep: Collection[Digest]) -> None:
        """Serve nothing any longer that is not to be kept."""

    def fetch(
        self,
        offer: Offer,
        destination: Path,
        peer: DeviceId,
        *,
        seconds: float,
        url: str | None = None,
    ) -> Future[Path]:
        """Fetch what was offered into `destination`; it may lie at `url`, too."""

    def cancel(self, digest: Digest) -> None:
        """End the fetch of data that is not needed any more."""

    def traffic(self) -> Counts:
        """Return what has crossed."""


class BlockExchange:
    """Serves and fetches over `connection`, which it starts, reads and stops.

    With `device` it is that device's side; without, the coordinator's, whose peers are all
    devices. `may_serve(peer, digest)` is asked for every request, in the exchange's thread; without
    it everything is for every device, and what several fetch at once is sent once to all of them.
    It lives once: after `stop` make another.
    """

    def __init__(
        self,
        connection: Connection,
        topics: FleetTopics,
        sender: Sender,
        *,
        device: DeviceId | None = None,
        may_serve: Callable[[DeviceId, Digest], bool] | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.connection = connection
        self.on_failure: Callable[[Exception], None] | None = None
        """Told, in the exchange's thread, of an error that ended it: no program goes on without."""
        self.https: HttpsRules | None = None
        """From where else than from peers it may fetch; None for nowhere."""
        self._reach = OwnHostReach(clock.seconds)
        self.refused_messages = 0
        """Messages that made no sense here, and requests for what is not served."""
        self.trouble = ""
        """What went wrong with its connection last; empty since the broker took it."""
        self._device = device
        self._wire = BlockWire(topics, sender, device, clock)
        self._clock = clock
        self._may_serve = may_serve
        self._https_sources: list[AlternativeBlockSource] = []
        self._https_received = 0
        """Bytes that came by HTTP, by sources that are not among these any more."""
        self._sources: dict[Digest, BlockSource] = {}
        self._shares = not topics.branch
        """Whether the coordinator is at one of both ends: a proxy has no topic for all."""
        self._shared = SharedBlocks()
        self._listening: set[Digest] = set()
        self._answers = BlockReplies()
        self._fetches = Fetches() if device is not None else Fetches(_PATIENCE_SECONDS)
        self._asked: list[Fetch | Digest] = []
        """What to fetch and what to call off, in the order in which it was said."""
        self._ended = False
        self._lock = threading.Lock()
        self._stopping = False
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin, with a thread that takes turns."""
        self.begin()
        self._thread = threading.Thread(target=self._run, name="blocks", daemon=True)
        self._thread.start()

    def begin(self) -> None:
        """Subscribe and connect."""
        # QoS 0: what is lost is asked for again, and the broker need not queue blocks for us.
        self.connection.subscribe(*self._wire.filters, qos=0)
        self.connection.start()

    def stop(self) -> None:
        """End; what is not fetched yet fails with `BlockError`, and its part file stays."""
        self._stopping = True
        self.connection.wake()
        if self._thread is not None:
            self._thread.join()
        self._end("the exchange was stopped")
        self.connection.stop()

    def traffic(self) -> Counts:
        """Return what its connection has carried, and what came by HTTP."""
        came = self._https_received + sum(source.received for source in self._https_sources)
        return self.connection.meter.total() + Counts(bytes_down=came)

    def serve(self, data: bytes | Path | BlockSource) -> Offer:
        """Answer requests for `data` from now on; return the offer to send to whom it concerns."""
        source = data if isinstance(data, BlockSource) else BlockSource(data)
        self._sources[source.offer.digest] = source
        return source.offer

    def source(self, digest: Digest) -> BlockSource | None:
        """Return what requests for this data are answered from; None if they are not."""
        return self._sources.get(digest)

    def withdraw_all_but(self, keep: Collection[Digest]) -> None:
        """Serve nothing any longer that is not to be kept."""
        for digest in [digest for digest in self._sources if digest not in keep]:
            self.withdraw(digest)

    def withdraw(self, digest: Digest) -> None:
        """Serve this data no longer."""
        self._sources.pop(digest, None)

    def fetch(
        self,
        offer: Offer,
        destination: Path,
        peer: DeviceId,
        *,
        seconds: float,
        url: str | None = None,
    ) -> Future[Path]:
        """Fetch what was offered into `destination`, whose `.part` neighbour collects the blocks.

        `peer` is the device whose topics are used: on a device its own id. The future gives the
        destination, or raises `BlockError`, at the latest after `seconds`; its callbacks run in
        the exchange's thread and must be short. How many are under way at once, and who comes
        next, `fetches` says; those that would write the same file wait for each other. With `url`,
        and where this exchange may, blocks come from there as long as they are right and come;
        from the peer come the list of their hashes, and all else. Raises `BlockError` if the
        exchange has stopped.
        """
        elsewhere = None if url is None or self.https is None else partial(self._begin_https, url)
        deadline, shares = self._clock.seconds() + seconds, self._shares and peer == self._device
        fetch = Fetch(offer, destination, peer, deadline, elsewhere, shares)
        with self._lock:
            if self._ended:
                raise BlockError(f"{offer.digest.short}…: the exchange has stopped")
            self._asked.append(fetch)
        self.connection.wake()
        return fetch.future

    def _begin_https(
        self, url: str, offer: Offer, missing: Sequence[int]
    ) -> AlternativeBlockSource | None:
        from fleetledger.transport.https_source import HttpsSource  # noqa: PLC0415 - few pay for it

        assert self.https is not None  # `fetch` asks
        own = url.startswith(":")
        if own and (self.https.own is None or not self._reach.may_be_tried()):
            return None
        over = [source for source in self._https_sources if source.ended is not None]
        self._https_sources = [item for item in self._https_sources if item not in over]
        self._https_received += sum(source.received for source in over)
        try:
            reach = self._reach if own else None
            source = HttpsSource(url, offer, missing, self.https, self.connection.wake, reach)
        except (BlockError, TlsError) as error:
            log.info("%s: not by HTTP: %s", offer.digest.short, error)
            return None
        self._https_sources.append(source)
        return source

    def cancel(self, digest: Digest) -> None:
        """End every fetch of this data with `NotWantedError`; its part file stays."""
        with self._lock:
            self._asked.append(digest)
        self.connection.wake()

    def _run(self) -> None:
        try:
            while not self._stopping:
                self.turn(self._patience())
        except Exception as error:
            self._end(f"the exchange failed: {error!r}")
            if self.on_failure is None:
                raise
            log.exception("the exchange failed")
            ended = error if isinstance(error, ThreadEndedError) else None
            self.on_failure(ended or ThreadEndedError("blocks", error))

    def turn(self, seconds: float) -> None:
        """Take what has come, waiting for it at most `seconds`, and do what is due.

        What came together is answered together: a request asks for several blocks then.
        """
        for number in range(_EVENTS_PER_TURN):
            event = self.connection.next_event(0 if number else seconds)
            if event is None:
                break
            self._handle(event)
        with self._lock:
            asked, self._asked = self._asked, []
        for item in asked:
            if isinstance(item, Fetch):
                self._fetches.add(item)
            else:
                self._fetches.cancel(item, self._clock.seconds())
        for peer, request in self._fetches.requests(self._clock.seconds()):
            if request.lacks_from is not None:
                self._listen({*self._listening, request.digest})
            try:
                self.connection.publish(self._wire.request(peer, request))
            except TransportError as error:
                log.debug("request not sent, it will be repeated: %s", error)
        if self._listening:
            self._listen(self._fetches.shared())
        self._answers.send_some(self.connection.publish)

    def _listen(self, digests: set[Digest]) -> None:
        """Listen to what is sent to every device of these data, and of no other."""
        for digest in digests - self._listening:
            self.connection.subscribe(self._wire.shared_filter(digest), qos=0)
        for digest in self._listening - digests:
            self.connection.unsubscribe(self._wire.shared_filter(digest))
        self._listening = digests

    def due(self) -> float:
        """Return when the next turn is due if nothing comes before; infinity if none is."""
        now = self._clock.seconds()
        if self._asked:
            return now
        if self._answers:
            return now + _FULL_QUEUE_SECONDS if self._answers.blocked else now
        return self._fetches.next_time(now)

    def _patience(self) -> float:
        return min(_LONGEST_WAIT_SECONDS, max(0.0, self.due() - self._clock.seconds()))

    def _handle(self, event: Event) -> None:
        if isinstance(event, IncomingMessage):
            try:
                self._receive(event)
            except (SchemaError, BlockError) as error:
                self.refused_messages += 1
                log.info("%s: %s", event.topic, error)
        elif isinstance(event, Connected):
            self.trouble = ""
            self._fetches.reconnected(self._clock.seconds())
        elif isinstance(event, Disconnected):
            self._fetches.disconnected()
        elif isinstance(event, ConnectionProblem):
            self.trouble = str(event.error)
            log.warning("connection for blocks: %s", event.error)

    def _receive(self, message: IncomingMessage) -> None:
        heard = self._wire.read(message)
        match heard.body:
            case BlockRequest() as request:
                self._answer(heard.peer, request)
            case BlockData() as label:
                shared_at = None if heard.shared_ms is None else heard.shared_ms / 1_000
                now = self._clock.seconds()
                self._fetches.deliver(heard.peer, label, heard.block, now, shared_at)
            case BlockRefusal() as refusal:
                self._fetches.refuse(heard.peer, refusal, self._clock.seconds())

    def _answer(self, peer: DeviceId, request: BlockRequest) -> None:
        source = self._sources.get(request.digest)
        asked = self._may_serve
        if source is None or (asked is not None and not asked(peer, request.digest)):
            reason = f"{request.digest.short}… is not served to {peer}; ask for what is offered now"
            refusal = BlockRefusal(digest=request.digest, reason=reason)
            self._answers.add(peer, iter([self._wire.refusal(peer, refusal)]))
            raise BlockError(reason)
        audience = None
        if asked is None and self._shares and self._device is None:
            now = self._clock.seconds()
            audience = self._shared.audience(request.digest, now)
            audience.note(peer, request, now)
        answer = self._answer_in_blocks(peer, request, source, audience)
        if not self._answers.add(peer, answer, len(request.indices)):
            raise BlockError(f"too many requests at once; {peer} has to ask again")

    def _answer_in_blocks(
        self, peer: DeviceId, request: BlockRequest, source: BlockSource, audience: Audience | None
    ) -> Iterator[OutgoingMessage]:
        """Yield blocks as messages, each decided when it is sent."""
        if audience is None or request.section == "list":
            for label, block in source.answer(request):
                yield self._wire.data(peer, label, block, source.digest_of(label, block))
            if audience is not None:
                audience.has_list(peer)
            return
        for run in audience.runs(peer, request, source.most_together(request)):
            for label, block in source.run(request, run.first, run.count):
                digest = source.digest_of(label, block)
                if run.to_all:
                    yield self._wire.shared(label, block, digest)
                else:
                    yield self._wire.data(peer, label, block, digest)

    def _end(self, reason: str) -> None:
        with self._lock:
            self._ended = True
            asked, self._asked = self._asked, []
        for item in asked:
            if isinstance(item, Fetch):
                item.fail(reason)
        self._fetches.fail_all(reason)
