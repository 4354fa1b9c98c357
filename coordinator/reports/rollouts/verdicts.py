"""Why a rollout stands where it stands, from the entries that decided."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from fleetledger.coordinator.core.phrases import count_of
from fleetledger.coordinator.reports.rollouts.curves import OLD, Grown
from fleetledger.coordinator.reports.rollouts.report import VerdictTold
from fleetledger.coordinator.reports.rollouts.sentences import deciding_finding, odds
from fleetledger.coordinator.reports.rollouts.story import MeasuredThen, RolloutStory
from fleetledger.coordinator.topics.rollouts.gates import GateFinding, log_words
from fleetledger.coordinator.topics.rollouts.verdict_check import differences

_OF_PAIRS = {"retention", "no_class_lost"}
_PAIRS = 6
"""Images by who had them right, all of them, and devices in the same way."""
_MOVED = 0.05
"""Log e that has changed by less is the same, to one digit."""


def verdict_told(
    story: RolloutStory, evidence: Mapping[int, Mapping[str, Grown]]
) -> VerdictTold | None:
    """Return the verdict that decided; the newest that did not pass, if it still holds."""
    measured = _deciding(story)
    if measured is None:
        return None
    body = measured.body
    finding = deciding_finding(body.gates) if body.outcome != "pass" else None
    devices = {story.heard[index].device for index in body.entries if index in story.heard}
    found = evidence.get(body.group, {})
    return VerdictTold(
        index=measured.index,
        group=body.group,
        mode=body.mode,
        outcome=body.outcome,
        gate=None if finding is None else finding.gate,
        sentence=_sentence(story, measured, finding),
        more=tuple(_more(finding, found)),
        heaviest=_heaviest(finding, found),
        entries=body.entries,
        devices=len(devices),
        equal=_comes_out_again(story, measured),
    )


def decided_by(story: RolloutStory) -> str:
    """Return what decided over a rollout that stands, with its figures; empty where a person did.

    It needs no report of a device.
    """
    measured = _deciding(story)
    if measured is None or story.by_operator or story.last.index < measured.index:
        return ""
    if measured.body.outcome == "pass":
        return ""
    finding = deciding_finding(measured.body.gates)
    return (
        f"{_sentence(story, measured, finding)} This is from "
        f"{count_of(len(measured.body.entries), 'report')} of group {measured.body.group}."
    )


def _comes_out_again(story: RolloutStory, measured: MeasuredThen) -> bool:
    """Return whether a verdict is what its reports say, who was in the group taken as recorded."""
    body = measured.body
    before = story.rollout.scope(body.group, body.mode, measured.index)
    scope = replace(before, members=body.members)
    named = [story.heard[index] for index in body.entries if index in story.heard]
    return not differences(body, story.planned.plan.gates, scope, named, body.entries)


def _deciding(story: RolloutStory) -> MeasuredThen | None:
    if story.stage in {"paused", "rolled_back"}:
        against = [one for one in story.verdicts if one.body.outcome != "pass"]
        return against[-1] if against else story.verdict
    return story.verdict


def _sentence(
    story: RolloutStory,
    measured: MeasuredThen,
    finding: GateFinding | None,
) -> str:
    body, planned = measured.body, story.planned
    if finding is None:
        return body.reason or (
            f"Group {body.group} passed every gate, by {count_of(len(body.entries), 'report')}."
        )
    if finding.gate not in _OF_PAIRS or len(finding.counts) < _PAIRS or finding.value is None:
        return _pointed(finding.text or body.reason)
    if finding.outcome != "fail":
        return _pointed(finding.text or body.reason)
    worse, better, images = finding.counts[:3]
    devices = finding.counts[-1]
    what = "of what it knew" if finding.gate == "retention" else f"of {finding.of_class}"
    former = "the former model" if planned.former is None else f"model {planned.former}"
    return (
        f"Of {count_of(images, 'image')} {what} on {count_of(devices)}, {worse:,} only {former} "
        f"had right "
        f"and {better:,} only model {planned.version}."
    )


def _more(finding: GateFinding | None, found: Mapping[str, Grown]) -> Iterator[str]:
    if finding is None or finding.gate not in _OF_PAIRS or finding.value is None:
        return
    if finding.outcome == "fail":
        limit = "" if finding.limit is None else f"; the limit is {log_words(finding.limit)}"
        yield (
            f"If both were equally good, evidence this strong (log e {log_words(finding.value)}) "
            f"would ever turn up in at most {odds(finding.value)} rollouts{limit}."
        )
    grown = found.get(OLD if finding.gate == "retention" else str(finding.of_class))
    if grown is None:
        return
    if abs(grown.log_e - finding.value) >= _MOVED:
        word = "raised" if grown.log_e > finding.value else "lowered"
        yield (
            f"Reports since then {word} log e from {log_words(finding.value)} to "
            f"{log_words(grown.log_e)} ({grown.worse:,} : {grown.better:,})."
        )
    heaviest = grown.heaviest()
    if heaviest is None or finding.limit is None or finding.outcome != "fail":
        return
    name, without = heaviest
    if without >= finding.limit:
        yield (
            f"It does not rest on one device: without {name}, which counts most, it is "
            f"{log_words(without)}, still above the limit of {log_words(finding.limit)}."
        )
    else:
        yield (
            f"It rests on {name}: without that device it is {log_words(without)}, below the limit "
            f"of {log_words(finding.limit)}."
        )


def _heaviest(finding: GateFinding | None, found: Mapping[str, Grown]) -> str | None:
    if finding is None:
        return None
    grown = found.get(OLD if finding.gate == "retention" else str(finding.of_class))
    heaviest = None if grown is None else grown.heaviest()
    return finding.alone or (heaviest[0] if heaviest else None)


def _pointed(text: str) -> str:
    text = text.strip().rstrip(".")
    return f"{text[:1].upper()}{text[1:]}." if text else ""
