"""An agent that rested is the agent that it was."""

from __future__ import annotations

from dataclasses import fields

from fleetledger.device_agent.core.records import (
    ActiveModel,
    CountingState,
    EnrollingState,
    Files,
    ImageToCount,
    Job,
    Listening,
    ModelProgress,
    ModelWait,
    News,
    OutboxKey,
    OwnReports,
    PresenceState,
    Scanning,
    Sending,
    Sighting,
    SignedNews,
    Try,
)
from fleetledger.device_agent.core.state import PIECES, AgentRules, AgentState, DeviceIdentity
from fleetledger.schemas.enrolment import KeyRotation
from fleetledger.schemas.keys import SignatureText
from fleetledger.schemas.reports import Problem
from fleetledger.schemas.values import BootId, ClassName
from fleetledger.simulator.virtual.rest import Resting, rest, wake
from tests.device_agent import making
from tests.schemas.examples import VERIFY_KEY

IDENTITY = DeviceIdentity(BootId("a" * 16), BootId("b" * 16), making.CAPABILITIES)


def fresh() -> AgentState:
    return AgentState(AgentRules(), IDENTITY)


def full() -> AgentState:
    state, cat = fresh(), ClassName("cat")
    key, digest = making.part_key(2, 3), making.digest
    held = making.held(3, 1, "payload", stage=2)
    state.presence = PresenceState(
        connected=True,
        coordinator=making.COORDINATOR,
        held_by=making.COORDINATOR,
        welcomed_by=making.COORDINATOR,
        held={held.key: held},
        birth=Try(2, 4.5),
        heartbeat_due=99.25,
    )
    state.scanning = Scanning(
        images={digest("image"): Sighting("cat/stage-01-000001.png", cat)},
        waiting={ClassName("dog"): 4},
        due=12.0,
        begun_for=7,
        done_for=7,
    )
    image = ImageToCount("cat/a.png", digest("a"), cat)
    state.work = CountingState(Job(key, 1, "stsa", digest("frozen")), (image,), True, Try(1, 3.0))
    state.sending = Sending({OutboxKey("contribution", key): Try(1, 8.0)})
    state.files = Files(
        here=frozenset({digest("frozen")}),
        fetching=making.offer("head"),
        tries={digest("head"): Try(3, 1.5)},
        littered=True,
    )
    state.models = ModelProgress(
        active=ActiveModel(2, digest("m")),
        variant="int8",
        installing=making.desired(5, 3),
        retry=Try(1, 2.0),
    )
    state.waiting = ModelWait(3.5, 7)
    state.listening = Listening(2.5, News(SignedNews(making.COORDINATOR, 4, 1, 9), 3, 2), told=True)
    told = Problem(about="image", text="broken")
    state.enrolling = EnrollingState(
        KeyRotation(key=VERIFY_KEY, approval=SignatureText.of(bytes(64))), tried=Try(2, 4.5)
    )
    state.told = OwnReports(
        waiting={cat: 2}, status=True, problems=frozenset({"broken"}), queue=(told,), untold=1
    )
    return state


def test_what_rested_wakes_as_it_was() -> None:
    for before in (fresh(), full()):
        after = fresh()
        assert wake(rest(before, 17.5), after) == 17.5
        assert after == before


def test_every_piece_of_a_run_is_remembered() -> None:
    state = fresh()
    pieces = {f.name for f in fields(AgentState) if isinstance(getattr(state, f.name), PIECES)}
    remembered = {name.replace("tries", "sending") for name in Resting.model_fields}
    assert pieces == remembered - {"wake_at", "held", "images"}
