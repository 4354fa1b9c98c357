"""Stages and rounds as people follow them: who gave, who has nothing, what came of each round."""

from __future__ import annotations

import json
from dataclasses import dataclass

from fleetledger.coordinator.core.folding import state_of
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.topics.rounds.state import RoundFacts
from fleetledger.coordinator.topics.rounds.views import without_data


@dataclass(frozen=True)
class StageFacts:
    """A stage, and what was given for it."""

    stage: int
    class_names: tuple[str, ...]
    opened_index: int
    opened_ns: int
    opened_by: str
    closed_index: int | None
    closed_ns: int | None
    closed_because: str | None
    answered: int | None
    """Devices that had answered when it closed."""
    expected: int | None
    contributions: int
    """Parts in the sum, and answers to rounds."""
    contributors: int
    samples: int
    rounds: int
    gave: int
    """Devices that gave something, whatever became of it."""
    without: int
    """Devices that said that they have nothing, and gave nothing."""


_GIVEN = """
SELECT stage, count(DISTINCT device) FILTER (WHERE counts), sum(counts),
    coalesce(sum(samples) FILTER (WHERE counts), 0), json_group_array(DISTINCT device)
FROM (SELECT stage, device, samples, state IN ('held', 'answer') AS counts FROM contribution
    WHERE stage IN (SELECT value FROM json_each(?)))
GROUP BY stage
"""


def newest_stages(ledger: LedgerReader, before: int, limit: int) -> list[StageFacts]:
    """Return stages below one, newest first."""
    numbers = sorted(number for number in state_of(ledger).stages.by_number if number < before)
    return _facts(ledger, numbers[::-1][:limit])


def one_stage(ledger: LedgerReader, stage: int) -> StageFacts | None:
    """Return a stage; None where there is none."""
    return next(iter(_facts(ledger, [stage])), None)


def _facts(ledger: LedgerReader, numbers: list[int]) -> list[StageFacts]:
    state = state_of(ledger)
    rows = ledger.db.execute(_GIVEN, [json.dumps(numbers)]).fetchall()
    given = {stage: figures for stage, *figures in rows}
    found = []
    for number in numbers:
        stage = state.stages.by_number.get(number)
        if stage is None:
            continue
        contributors, parts, samples, names = given.get(number, (0, 0, 0, "[]"))
        gave = json.loads(names)
        found.append(
            StageFacts(
                stage=number,
                class_names=stage.class_names,
                opened_index=stage.opened_index,
                opened_ns=stage.asked_ns,
                opened_by=stage.opened_by,
                closed_index=stage.closed_index,
                closed_ns=stage.closed_ns,
                closed_because=stage.closed_because,
                answered=stage.answered,
                expected=stage.expected,
                contributions=parts,
                contributors=contributors,
                samples=samples,
                rounds=sum(one.stage == number for one in state.rounds.facts.values()),
                gave=len(gave),
                without=len(without_data(state, number).keys() - set(gave)),
            )
        )
    return found


@dataclass(frozen=True)
class GivenRow:
    """What a device gave for a stage."""

    device: str
    parts: int
    samples: int
    payload_bytes: int
    newest_index: int
    state: str
    """`held` where a part of it is in the sum; of rounds `answer`; else what became of the last."""


def given_for(ledger: LedgerReader, stage: int, after: int, limit: int) -> list[GivenRow]:
    """Return what each device gave for a stage, the most first, from a place on."""
    rows = ledger.db.execute(
        "SELECT device, sum(state IN ('held', 'answer')),"
        " sum(CASE WHEN state IN ('held', 'answer') THEN samples ELSE 0 END),"
        " sum(payload_bytes), max(idx),"
        " CASE WHEN max(state = 'held') THEN 'held' WHEN max(state = 'answer') THEN 'answer'"
        " ELSE min(state) END"
        " FROM contribution WHERE stage = ? GROUP BY device ORDER BY 3 DESC, 1 LIMIT ? OFFSET ?",
        [stage, limit, after],
    )
    return [GivenRow(*row) for row in rows.fetchall()]


def nothing_for(ledger: LedgerReader, stage: int, limit: int) -> list[tuple[str, int, str]]:
    """Return who had nothing for a stage, or could not: device, entry, why; the newest first."""
    gave = ledger.db.execute("SELECT DISTINCT device FROM contribution WHERE stage = ?", [stage])
    others = without_data(state_of(ledger), stage)
    for (device,) in gave.fetchall():
        others.pop(device, None)
    return _reasons(ledger, sorted(others.values(), reverse=True)[:limit])


def _reasons(ledger: LedgerReader, indices: list[int]) -> list[tuple[str, int, str]]:
    """Return who said by entries that there is nothing to give, and why."""
    found = ledger.at(indices)
    return [(str(one.device), one.index, one.body.get("reason", "")) for one in found]


def rounds_of(ledger: LedgerReader, stage: int, before: int, limit: int) -> list[RoundFacts]:
    """Return rounds of a stage below one, newest first."""
    found = reversed(state_of(ledger).rounds.facts.values())
    return [one for one in found if one.stage == stage and one.number < before][:limit]


@dataclass(frozen=True)
class AnswerRow:
    """What a device gave in a round, or that it has nothing."""

    device: str
    index: int
    state: str
    """As of a contribution; `nothing` where it gave none."""
    samples: int
    payload_bytes: int
    reason: str


def answers_to(ledger: LedgerReader, stage: int, number: int) -> dict[str, AnswerRow]:
    """Return what came of each device that was asked, by its name."""
    rows = ledger.db.execute(
        "SELECT device, idx, state, samples, payload_bytes, '' FROM contribution"
        " WHERE stage = ? AND part = ? AND state <> 'held' ORDER BY idx",
        [stage, number],
    )
    found = {row[0]: AnswerRow(*row) for row in rows.fetchall()}
    nothing = state_of(ledger).rounds.nothing_in((number,))
    for device, index, why in _reasons(ledger, list(nothing.values())):
        found[device] = AnswerRow(device, index, "nothing", 0, 0, why)
    return found
