"""Masked cohorts as commands and pages show them."""

from __future__ import annotations

from collections.abc import Iterator

from fleetledger.coordinator.core.phrases import count_of, some
from fleetledger.coordinator.core.state import State
from fleetledger.coordinator.topics.cohorts.judging import owing
from fleetledger.coordinator.topics.cohorts.state import CohortProgress
from fleetledger.runtime.count_words import agree

_ASKED = {
    "mask": "have given their words",
    "silent": "have told what they had in common with the silent",
    "opening": "have told their shares",
}
_ONE_ASKED = {
    name: text.replace("have ", "has ", 1).replace("their", "its").replace("they", "it")
    for name, text in _ASKED.items()
}


def cohort_sentences(state: State, stage: int) -> Iterator[str]:
    """Yield what the open cohorts of a stage wait for, and how many devices wait for one."""
    for cohort in state.cohorts.busy(stage):
        yield _of_cohort(state, cohort)
    waiting, of = len(state.cohorts.waiting(stage)), state.stages.by_number[stage].privacy
    if not waiting or of is None or of.masks is None:
        return
    lacks = of.masks.least - waiting
    needs = f"; {lacks} more are needed for one" if lacks > 1 else "; 1 more is needed for one"
    yield (
        f"{count_of(waiting)} {agree(waiting, 'waits', 'wait')} for a cohort"
        f"{needs if lacks > 0 else ''}."
    )


def _of_cohort(state: State, cohort: CohortProgress) -> str:
    owes = owing(state, cohort)
    present, number = len(cohort.present), cohort.body.number
    done = present - len(owes)
    did = (_ONE_ASKED if done == 1 else _ASKED)[cohort.step]
    silent = len(cohort.silent)
    without = f" (without {count_of(silent, 'silent one')})" if silent else ""
    head = f"Cohort {number}: {done} of {count_of(present, 'member')}{without} {did}"
    if cohort.opens() or not owes:
        return f"{head}; its masks are taken off." if cohort.opens() else f"{head}."
    enough = ""
    if cohort.step == "opening":
        enough = f"; {cohort.body.threshold} are enough, and it waits for as long as that takes"
    return f"{head}; it waits for {some(owes)}{enough}."
