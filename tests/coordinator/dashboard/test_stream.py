"""The stream of changes: nothing is lost, whoever comes again, and nobody holds the others up."""

from __future__ import annotations

import asyncio
import itertools
import json
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from fleetledger.coordinator.dashboard import follower
from fleetledger.coordinator.dashboard.app import make_app
from fleetledger.coordinator.dashboard.follower import (
    MOST_WAITING,
    Change,
    LedgerFollower,
    NewEntries,
    WhoIsThere,
)
from fleetledger.coordinator.ledger.entries import EntryDraft
from fleetledger.coordinator.ledger.reader import ledger_of
from fleetledger.coordinator.ledger.store import Ledger
from fleetledger.coordinator.live.file import LiveFile
from fleetledger.coordinator.paths import ledger_path
from fleetledger.schemas.values import DeviceId
from fleetledger.transport.pages.server import ListenAddress, listen, server_of
from tests.coordinator.dashboard.metrics.scraping import DEVICES, LIVE, NOW_NS
from tests.coordinator.dashboard.served import a_fleet, browser

WAIT = 20.0


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follower, "LOOK_SECONDS", 0.02)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return a_fleet(tmp_path)


def size_of(home: Path) -> int:
    with ledger_of(home) as ledger:
        return ledger.size


def add(home: Path, *devices: str) -> None:
    with Ledger.open(ledger_path(home)) as ledger:
        for name in devices:
            body = {"device": name}
            draft = EntryDraft("device.admitted", "operator", body, DeviceId(name), (), NOW_NS)
            ledger.append([draft])


def followed(
    home: Path,
    story: Callable[[LedgerFollower], Awaitable[None]],
    follower: LedgerFollower | None = None,
) -> None:
    async def play() -> None:
        await asyncio.wait_for(story(follower or LedgerFollower(home, lambda: NOW_NS)), WAIT)

    asyncio.run(play())


async def first(changes: AsyncIterator[Change]) -> Change:
    return await anext(changes)


def test_new_entries_are_told_by_kind_and_device(home: Path) -> None:
    async def story(follower: LedgerFollower) -> None:
        size = size_of(home)
        changes = follower.listen(size - 1)
        waiting = asyncio.create_task(first(changes))
        while not follower._queues:
            await asyncio.sleep(0.01)
        add(home, "dev-8", "dev-9")
        found: list[Change] = [await waiting]
        while found[-1].last < size + 1:  # type: ignore[union-attr]
            found.append(await anext(changes))
        told = [change for change in found if isinstance(change, NewEntries)]
        assert told[0].first == size
        assert all(one.last + 1 == other.first for one, other in itertools.pairwise(told))
        assert {name for change in told for name in change.devices} == {"dev-8", "dev-9"}
        assert sum(change.kinds["device.admitted"] for change in told) == 2

    followed(home, story)


def test_who_comes_again_is_told_of_everything_since(home: Path) -> None:
    async def story(follower: LedgerFollower) -> None:
        size = size_of(home)
        missed = await anext(follower.listen(2))
        assert isinstance(missed, NewEntries)
        assert (missed.first, missed.last) == (3, size - 1)
        assert sum(missed.kinds.values()) == size - 3

    followed(home, story)


def test_who_came_and_who_went_is_told(home: Path) -> None:
    async def story(follower: LedgerFollower) -> None:
        changes = follower.listen(None)
        waiting = asyncio.create_task(first(changes))
        while not follower._queues:
            await asyncio.sleep(0.01)
        gone = DEVICES[DeviceId("dev-1")].model_copy(update={"online": False})
        LiveFile(home).write(LIVE.model_copy(update={"devices": {gone.device: gone}}))
        assert await waiting == WhoIsThere(
            online=(), away=("dev-1",), devices_online=0, serves=True
        )

    followed(home, story)


def test_who_takes_nothing_is_dropped_and_the_others_are_told(home: Path) -> None:
    async def story(follower: LedgerFollower) -> None:
        slow, quick = follower.listen(None), follower.listen(None)
        waiting = [asyncio.create_task(first(slow)), asyncio.create_task(first(quick))]
        while len(follower._queues) < 2:
            await asyncio.sleep(0.01)
        size = size_of(home)
        told = [NewEntries(first=i, last=i, kinds={}, devices=()) for i in range(size, size + 99)]
        for change in told:
            follower._tell(change)
            if change.first == size:
                await asyncio.gather(*waiting)
            else:
                assert await anext(quick) == change
        assert len(follower._queues) == 1
        left = [change async for change in slow]
        assert 0 < len(left) < MOST_WAITING

    followed(home, story)


def test_the_ledger_is_looked_at_once_for_all_and_not_when_nobody_listens(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[float] = []
    look = LedgerFollower._look

    def counted(self: LedgerFollower) -> object:
        looks.append(time.monotonic())
        return look(self)

    monkeypatch.setattr(follower, "LOOK_SECONDS", 0.2)
    monkeypatch.setattr(LedgerFollower, "_look", counted)

    async def story(follower: LedgerFollower) -> None:
        everybody = [follower.listen(None) for _ in range(50)]
        waiting = [asyncio.create_task(first(changes)) for changes in everybody]
        while len(follower._queues) < 50:
            await asyncio.sleep(0.01)
        looks.clear()
        add(home, "dev-8")
        await asyncio.gather(*waiting)
        assert len(looks) <= 3
        for changes in everybody:
            await changes.aclose()  # type: ignore[attr-defined]
        assert follower._task is None

    followed(home, story)


@contextmanager
def serving(home: Path, port: int = 0) -> Iterator[int]:
    """Serve the dashboard on a port of this machine; it has stopped afterwards."""
    app = make_app(home, now_ns=lambda: NOW_NS)
    listening = ListenAddress(port=port)
    with listen(listening) as listener:
        server = server_of(app, listening, app.state.follower.stop)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join(WAIT)
            assert not thread.is_alive()


def events(lines: Iterator[str]) -> Iterator[dict[str, str]]:
    """Yield events of a stream by their fields."""
    found: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(": ")
        if line and name:
            found[name] = value
        elif not line and "data" in found:
            yield found
            found = {}


def test_the_stream_resumes_after_the_dashboard_began_anew(home: Path) -> None:
    cookies = dict(browser(home).cookies)
    seen: list[int] = []
    last = size_of(home) - 1
    for name in ("dev-7", "dev-8"):
        add(home, name)  # while no dashboard runs
        with serving(home) as port, httpx.Client(cookies=cookies, timeout=WAIT) as client:
            headers = {"last-event-id": str(last)}
            url = f"http://127.0.0.1:{port}/events?since=0"
            with client.stream("GET", url, headers=headers) as answer:
                assert answer.headers["content-type"].startswith("text/event-stream")
                assert answer.headers["content-security-policy"]
                event = next(events(answer.iter_lines()))
                told = NewEntries.model_validate_json(event["data"])
                assert event["event"] == "entries"
                assert told.devices == (name,)
                seen.append(told.first)
                assert told.first == last + 1
                last = int(event["id"])
    assert last == size_of(home) - 1
    assert seen == [last - 1, last]


def test_the_dashboard_stops_in_order_while_somebody_listens(home: Path) -> None:
    cookies = dict(browser(home).cookies)
    with httpx.Client(cookies=cookies, timeout=WAIT) as client:
        with serving(home) as port:
            request = client.build_request("GET", f"http://127.0.0.1:{port}/events?since=-1")
            answer = client.send(request, stream=True)
            found = events(answer.iter_lines())
            assert json.loads(next(found)["data"])["first"] == 0
        assert list(found) == []  # the stream ended, and the connection was not broken


@pytest.mark.parametrize("since", ["x", "1.5", "9" * 30])
def test_a_place_that_is_none_is_refused_in_words(home: Path, since: str) -> None:
    assert browser(home).get(f"/events?since={since}").status_code == 400
