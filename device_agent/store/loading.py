"""Rebuilding the records from the database, at start."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, TypeVar, cast

from sqlite_utils import Database

from device_agent.core.records import About, Counted, Height, Letter, LetterKey, Look, Part, Waited
from device_agent.core.state import Records
from learning.numerics.detection import Detector
from schemas.assignments import Assignment
from schemas.canonical import parse_json
from schemas.contributions import Contribution, Nothing, PartKey, Withdrawal
from schemas.message import Message
from schemas.models import DesiredModel, ModelStatus
from schemas.presence import SeenCheckpoint
from schemas.proxy import PrototypeGradients
from schemas.releases import SignedRelease
from schemas.reports import Evaluation, Transition
from schemas.roots import SignedRoot
from schemas.rounds import Observation
from schemas.values import BootId, ClassName, Digest

_Body = TypeVar("_Body", bound=Message)
_Letter = Contribution | Withdrawal | Nothing | Transition | PrototypeGradients
_BODIES: dict[str, type[_Letter]] = {
    "contribution": Contribution,
    "withdrawal": Withdrawal,
    "nothing": Nothing,
    "transition": Transition,
    "gradients": PrototypeGradients,
}


def read_fact(db: Database, name: str) -> Any:  # noqa: ANN401 - any JSON value
    """Return a fact, or None."""
    row = db.execute("SELECT value FROM fact WHERE name = ?", [name]).fetchone()
    return parse_json(row[0].encode("utf-8")) if row is not None else None


def load_records(db: Database) -> Records:
    """Return what the database holds; raise `SchemaError` for a body this program cannot read."""
    facts: dict[str, str] = dict(db.execute("SELECT name, value FROM fact"))
    boot, memory = _plain(facts, "ledger_boot"), _plain(facts, "memory")
    network = _plain(facts, "memory_lineage")
    return Records(
        parts=dict(_parts(db)),
        counted=_counted(db),
        outbox=dict(_letters(db)),
        unusable={
            Digest(digest): reason
            for digest, reason in db.execute("SELECT digest, reason FROM unusable")
        },
        nothing={stage for (stage,) in db.execute("SELECT stage FROM empty_stage")},
        answered={number for (number,) in db.execute("SELECT number FROM answered_round")},
        memory=Digest(memory) if memory is not None else None,
        memory_lineage=Digest(network) if network is not None else None,
        exemplars=_plain(facts, "exemplars") or 0,
        look=_look(facts),
        dead_letters=db.execute("SELECT count(*) FROM dead_letter").fetchone()[0],
        assignment=_message(facts, "assignment", Assignment),
        desired=_message(facts, "desired", DesiredModel),
        acted=_plain(facts, "acted"),
        waited=_waited(facts),
        ledger_boot=BootId(boot) if boot is not None else None,
        next_part=_plain(facts, "next_part"),
        status=_message(facts, "status", ModelStatus),
        evaluation=_message(facts, "evaluation", Evaluation),
        detector=_detector(db),
        measured={Digest(digest) for (digest,) in db.execute("SELECT digest FROM measured")},
        reported={ClassName(name) for (name,) in db.execute("SELECT name FROM reported_class")},
        transitions=_plain(facts, "transitions") or 0,
        seen=_seen(facts),
        root=_root(facts),
        heights=_heights(facts),
        release=_release(facts),
    )


def _root(facts: Mapping[str, str]) -> SignedRoot | None:
    text = facts.get("root")
    return None if text is None else SignedRoot.read(text.encode("utf-8"))


def _heights(facts: Mapping[str, str]) -> dict[str, Height]:
    known = _plain(facts, "heights") or {}
    return {key: Height(number, Digest(release)) for key, (number, release) in known.items()}


def _waited(facts: Mapping[str, str]) -> Waited | None:
    known = _plain(facts, "waited")
    return None if known is None else Waited(known[0], float(known[1]), known[2])


def _release(facts: Mapping[str, str]) -> SignedRelease | None:
    text = facts.get("release")
    return None if text is None else SignedRelease.model_validate_json(text)


def _seen(facts: Mapping[str, str]) -> SeenCheckpoint | None:
    seen = _plain(facts, "seen")
    return None if seen is None else SeenCheckpoint.model_validate(seen)


def _look(facts: Mapping[str, str]) -> Look | None:
    seen, number = _plain(facts, "look"), _plain(facts, "look_round")
    return Look(number, Observation.model_validate(seen)) if seen is not None else None


def _detector(db: Database) -> Detector:
    """Return the detector's state; a new one where there is none that this program can read."""
    row = db.execute("SELECT state FROM detector").fetchone()
    if row is None:
        return Detector()
    try:
        return Detector.from_plain(parse_json(row[0].encode("utf-8")))
    except (KeyError, TypeError, IndexError):
        # Of another version; what is normal here is learned again.
        return Detector()


def _plain(facts: Mapping[str, str], name: str) -> Any:  # noqa: ANN401 - any JSON value
    text = facts.get(name)
    return parse_json(text.encode("utf-8")) if text is not None else None


def _message(facts: Mapping[str, str], name: str, model: type[_Body]) -> _Body | None:
    text = facts.get(name)
    return cast(_Body, _read(model, text)) if text is not None else None


@lru_cache(maxsize=16)
def _read(model: type[Message], text: str) -> Message:
    """Read a message; agents that share a process have mostly the same."""
    return model.read(parse_json(text.encode("utf-8")))


def _parts(db: Database) -> Iterator[tuple[PartKey, Part]]:
    query = "SELECT stage, part, revision, state, lineage, payload FROM part ORDER BY rowid"
    for stage, part, revision, state, lineage, payload in db.execute(query):
        yield (
            PartKey(stage=stage, part=part),
            Part(
                revision,
                state,
                Digest(lineage) if lineage is not None else None,
                Digest(payload) if payload is not None else None,
            ),
        )


def _counted(db: Database) -> dict[Digest, dict[Digest, Counted]]:
    counted: dict[Digest, dict[Digest, Counted]] = {}
    # One object per part and class, however many images there are.
    shared: dict[tuple[int, int, str], Counted] = {}
    query = "SELECT lineage, digest, stage, part, class_name FROM image ORDER BY rowid"
    for lineage, digest, stage, part, name in db.execute(query):
        item = shared.get((stage, part, name))
        if item is None:
            item = Counted(PartKey(stage=stage, part=part), ClassName(name))
            shared[stage, part, name] = item
        counted.setdefault(Digest(lineage), {})[Digest(digest)] = item
    return counted


def _letters(db: Database) -> Iterator[tuple[LetterKey, Letter]]:
    query = "SELECT about, stage, part, revision, body FROM outbox ORDER BY position"
    for about, stage, part, revision, body in db.execute(query):
        key = LetterKey(cast(About, about), PartKey(stage=stage, part=part))
        message = _BODIES[about].read(parse_json(body.encode("utf-8")))
        yield key, Letter(revision, message)
