"""Memory of an agent at rest beside its store: the pieces of its run, as JSON.

The law, which the tests hold: after `wake` the state is equal to what it was before `rest`.
"""

from __future__ import annotations

from dataclasses import replace

from fleetledger.device_agent.core.records import (
    About,
    CountingState,
    Detecting,
    EnrollingState,
    Files,
    Listening,
    ModelProgress,
    ModelWait,
    OutboxKey,
    OwnReports,
    PresenceState,
    Scanning,
    Sending,
    Sighting,
    Training,
    Try,
)
from fleetledger.device_agent.core.state import AgentState
from fleetledger.runtime.strict import Strict
from fleetledger.schemas.contributions import HeldPart, PartKey
from fleetledger.schemas.values import ClassName, Digest


class Resting(Strict):
    """The pieces of a state (`device_agent.core.state`), with lists for what JSON has no keys."""

    wake_at: float
    presence: PresenceState
    enrolling: EnrollingState
    held: tuple[HeldPart, ...]
    scanning: Scanning
    images: tuple[tuple[str, str, str], ...]
    """Digest, path and class; most of a state, and known to be good."""
    work: CountingState
    training: Training
    detecting: Detecting
    tries: tuple[tuple[About, PartKey, Try], ...]
    files: Files
    models: ModelProgress
    waiting: ModelWait
    listening: Listening
    told: OwnReports


def rest(state: AgentState, wake_at: float) -> bytes:
    """Return what is needed to go on with a state whose records are in the store."""
    resting = Resting(
        wake_at=wake_at,
        presence=replace(state.presence, held={}),
        enrolling=state.enrolling,
        held=tuple(state.presence.held.values()),
        scanning=replace(state.scanning, images={}),
        images=tuple((d, s.path, s.class_name) for d, s in state.scanning.images.items()),
        work=state.work,
        training=state.training,
        detecting=state.detecting,
        tries=tuple((key.about, key.key, item) for key, item in state.sending.tries.items()),
        files=state.files,
        models=state.models,
        waiting=state.waiting,
        listening=state.listening,
        told=replace(state.told, problems=frozenset(state.told.problems)),
    )
    return resting.model_dump_json().encode("utf-8")


def wake(data: bytes, state: AgentState) -> float:
    """Give a state, freshly made from the store, its pieces back; return `wake_at`."""
    resting = Resting.model_validate_json(data)
    held = {part.key: part for part in resting.held}
    state.presence = replace(resting.presence, held=held)
    state.enrolling = resting.enrolling
    state.scanning, state.work = replace(resting.scanning, images=_images(resting)), resting.work
    state.training, state.detecting = resting.training, resting.detecting
    tries = {OutboxKey(about, key): item for about, key, item in resting.tries}
    state.sending = Sending(tries)
    state.files, state.models, state.waiting = resting.files, resting.models, resting.waiting
    state.listening, state.told = resting.listening, resting.told
    return resting.wake_at


def _images(resting: Resting) -> dict[Digest, Sighting]:
    names = {name: ClassName.known(name) for _, _, name in resting.images}
    return {
        Digest.known(digest): Sighting(path, names[name]) for digest, path, name in resting.images
    }
