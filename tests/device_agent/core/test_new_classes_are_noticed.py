"""Transitions by a folder's name, and by the entropy of images that are not counted yet."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fleetledger.device_agent.core import inputs
from fleetledger.device_agent.core.records import ActiveModel
from fleetledger.device_agent.core.requests import ComputePart, Evaluate, Measure
from fleetledger.learning.numerics.detection import DetectionRules, ScoringHead
from fleetledger.schemas.reports import Transition
from fleetledger.schemas.values import ClassName
from tests.device_agent import making
from tests.device_agent.core.driving import Driven

ACTIVE = ActiveModel(1, making.digest("manifest"))
HEAD = ScoringHead(("cat", "dog"), 10.0)
RULES = DetectionRules(quiet_images=100, min_images=2)
BATCHES = DetectionRules(mode="baseline", min_images=2, min_history=2)


def transitions(agent: Driven) -> list[Transition]:
    """Return what was sent, each once however often it was repeated."""
    sent = {body.number: body for body in agent.sent(Transition) if isinstance(body, Transition)}
    return list(sent.values())


def learn_and_run(agent: Driven, rules: DetectionRules = RULES) -> None:
    """Count what is on the disk, then let a model become active."""
    agent.state.rules = agent.rules = type(agent.rules)(detection=rules)
    agent.connect()
    agent.put(a="cat/a", b="dog/b")
    agent.assign("cat", "dog")
    agent.compute()
    agent.give(inputs.ModelInstalled(0, ACTIVE))


def arrive(agent: Driven, level: float, *names: str, label: str = "cat") -> None:
    """Let images appear, be measured with values around `level`, and be counted."""
    agent.disk |= {name: (label, name) for name in names}
    agent.take(Measure)
    agent.scan()
    (request,) = agent.take(Measure)
    digests = tuple(image.digest for image in request.images)
    values = tuple(level + 0.001 * i for i in range(len(digests)))
    agent.give(inputs.UncertaintyMeasured(HEAD, digests, values))
    if agent.job() is not None:
        agent.compute(" ".join(names))


def test_an_unknown_folder_name_is_reported_once_until_its_receipt(ready: Driven) -> None:
    ready.put(a="owl/1", b="owl/2", c="cat/3")
    ready.scan()
    (told,) = transitions(ready)
    assert (told.why, told.stage, dict(told.classes)) == ("class name", 1, {"owl": 2})
    ready.put(a="owl/1", b="owl/2", c="cat/3", d="owl/4")
    ready.scan()
    ready.wait(10)
    assert transitions(ready) == [told], "sent again, and no other: the name is known to be new"
    ready.receipt(making.accepted("transition", making.part_key(1, 0)))
    ready.wait(100)
    assert transitions(ready) == []


def test_a_further_name_is_another_transition_that_lists_both(ready: Driven) -> None:
    ready.put(a="owl/1")
    ready.scan()
    ready.put(a="owl/1", b="eel/2")
    ready.scan()
    first, second = transitions(ready)
    assert (first.number, second.number) == (0, 1)
    assert set(second.classes) == {"owl", "eel"}


def test_nothing_is_reported_while_files_are_being_written(ready: Driven) -> None:
    ready.put(a="owl/1")
    ready.scan(unsettled=1)
    assert transitions(ready) == []
    ready.scan()
    assert len(transitions(ready)) == 1


def test_a_reported_name_stays_reported_over_a_restart_and_not_over_a_restored_ledger(
    ready: Driven,
) -> None:
    ready.put(a="owl/1")
    ready.scan()
    ready.receipt(making.accepted("transition", making.part_key(1, 0)))
    ready.kill()
    ready.connect()
    ready.scan()
    ready.take(object)
    ready.wait(100)
    assert transitions(ready) == []
    ready.connect(coordinator=making.LATER_COORDINATOR, ledger_size=0)
    ready.assign("cat", "dog", boot=making.LATER_COORDINATOR)
    assert [dict(told.classes) for told in transitions(ready)] == [{"owl": 1}]


def test_more_names_than_a_message_carries_are_all_reported(ready: Driven) -> None:
    ready.put(**{f"i{n}": f"class {n}/{n}" for n in range(1500)})
    ready.scan()
    told = transitions(ready)
    assert [len(item.classes) for item in told] == [1000, 1000]
    assert len({name for item in told for name in item.classes}) == 1500


def test_images_are_measured_before_they_are_counted_and_only_once(agent: Driven) -> None:
    learn_and_run(agent)
    agent.put(a="cat/a", b="dog/b", c="cat/c")
    agent.scan()
    requests = [r for r in agent.requests if isinstance(r, Measure | ComputePart)]
    measure, compute = requests[-2:]
    assert isinstance(measure, Measure)
    assert isinstance(compute, ComputePart)
    assert [image.path for image in measure.images] == ["cat/c"], "counted images are not new"
    agent.give(inputs.UncertaintyMeasured(HEAD, (making.digest("c"),), (0.3,)))
    agent.compute("c")
    agent.take(Measure)
    agent.scan()
    assert agent.take(Measure) == []
    assert agent.state.records.measured == set(), "a counted image needs no other mark"


def test_enough_evidence_is_reported_with_what_was_measured(agent: Driven) -> None:
    learn_and_run(agent)
    agent.give(inputs.Evaluated(None, "no", head=HEAD, uncertainties=(0.2, 0.4) * 100))
    arrive(agent, 0.3, *(f"q{number}" for number in range(4)))
    assert transitions(agent) == []
    for number in range(8):
        arrive(agent, 0.9, *(f"x{number}-{image}" for image in range(3)))
    (told,) = transitions(agent)
    assert told.why == "entropy"
    assert told.uncertainty is not None
    assert 20 <= told.uncertainty.images <= 28
    assert told.uncertainty.value > 0.7
    assert told.uncertainty.baseline < 0.4
    assert told.uncertainty.model_version == 1
    assert agent.state.records.detector.raised


def test_a_report_says_how_long_a_tenth_of_the_quiet_images_takes_here(agent: Driven) -> None:
    """10 of 100 images, at the pace since the agent started: 48 images in 3 seconds each."""
    learn_and_run(agent)
    began = agent.now
    agent.give(inputs.Evaluated(None, "no", head=HEAD, uncertainties=(0.2, 0.4) * 100))
    for number in range(16):
        agent.now += 9
        level = 0.3 if number < 8 else 0.9
        arrive(agent, level, *(f"x{number}-{image}" for image in range(3)))
        if told := transitions(agent):
            break
    assert told[0].uncertainty is not None
    images = agent.state.detecting.measured
    assert images == 3 * (number + 1)
    assert told[0].uncertainty.within_seconds == pytest.approx((agent.now - began) / images * 10)


def test_evidence_survives_a_kill_and_no_other_model(agent: Driven) -> None:
    learn_and_run(agent)
    agent.give(inputs.Evaluated(None, "no", head=HEAD, uncertainties=(0.2, 0.4) * 100))
    arrive(agent, 0.9, "x0", "x1", "x2", "x3")
    before = agent.state.records.detector.evidence
    assert before.value > 1
    assert before.neighbours.shots == 4
    agent.kill()
    assert agent.state.records.detector.evidence == before
    agent.connect()
    agent.disk |= {"y": ("cat", "y")}
    agent.scan()
    agent.give(inputs.UncertaintyMeasured(HEAD._replace(model="other"), (), (0.9,) * 4))
    assert agent.state.records.detector.evidence.images == 4


def test_a_batch_above_the_history_is_reported_once_with_what_was_measured(agent: Driven) -> None:
    learn_and_run(agent, BATCHES)
    for number in range(4):
        arrive(agent, 0.3, f"q{number}", f"r{number}")
    transitions(agent)
    arrive(agent, 0.9, "x", "y")
    (told,) = transitions(agent)
    assert told.why == "entropy"
    assert told.uncertainty is not None
    assert told.uncertainty.images == 2
    assert told.uncertainty.value > 0.8
    assert told.uncertainty.baseline < 0.4
    assert told.uncertainty.model_version == 1
    agent.receipt(making.accepted("transition", making.part_key(1, 0)))
    arrive(agent, 0.9, "v", "w")
    assert transitions(agent) == []


def test_history_and_measured_images_survive_a_kill(agent: Driven) -> None:
    learn_and_run(agent, BATCHES)
    for number in range(3):
        arrive(agent, 0.3, f"q{number}", f"r{number}")
    arrive(agent, 0.3, "z", label="owl")
    before = agent.state.records
    assert before.detector.history
    assert before.measured == {making.digest("z")}
    agent.kill()
    assert agent.state.records == before


def test_images_of_waiting_classes_do_not_become_what_is_normal(agent: Driven) -> None:
    learn_and_run(agent)
    agent.put(a="cat/a", b="dog/b", o="owl/o")
    agent.scan()
    assert agent.take(Measure) == []
    arrive(agent, 0.3, "q", "r", "s", "t")
    (request,) = agent.take(Measure)
    assert [image.class_name for image in request.images] == [ClassName("owl")]


def test_of_many_new_images_an_even_sample_is_measured(agent: Driven) -> None:
    learn_and_run(agent)
    most = agent.rules.measured_at_once
    agent.disk |= {f"n{n:04}": ("cat", f"n{n}") for n in range(3 * most)}
    agent.scan()
    (request,) = agent.take(Measure)
    assert len(request.images) == most
    assert request.images[-1].path > "cat/n0590"


def test_held_out_images_are_the_first_quiet_ones(agent: Driven) -> None:
    learn_and_run(agent)
    event = inputs.Evaluated(None, "no", head=HEAD, uncertainties=(0.3, 0.31) * 20)
    agent.give(event)
    assert agent.state.records.detector.evidence.images == 40
    agent.give(event)
    assert agent.state.records.detector.evidence.images == 40, "once for a model"
    arrive(agent, 0.9, *(f"x{number}" for number in range(24)))
    assert [told.why for told in transitions(agent)] == ["entropy"]


def test_held_out_images_of_classes_that_the_device_lacks_count_where_others_are_few(
    agent: Driven,
) -> None:
    learn_and_run(agent)
    named = inputs.Evaluated(
        None,
        "no",
        head=HEAD,
        uncertainties=(0.3, 0.3, 0.9, 0.9),
        classes=(ClassName("cat"), ClassName("cat"), ClassName("eel"), ClassName("eel")),
    )
    agent.give(named)
    assert agent.state.records.detector.evidence.before.total == pytest.approx(0.6)
    few = replace(
        named, head=HEAD._replace(model="next"), classes=(ClassName("cat"), *named.classes[2:])
    )
    agent.give(few)
    assert agent.state.records.detector.evidence.images == 4


def test_held_out_images_give_the_first_batches(agent: Driven) -> None:
    learn_and_run(agent, BATCHES)
    event = inputs.Evaluated(None, "no", head=HEAD, uncertainties=(0.3, 0.31) * 3)
    agent.give(event)
    assert agent.state.records.detector.ready(BATCHES)
    arrive(agent, 0.9, "x", "y")
    assert [told.why for told in transitions(agent)] == ["entropy"]


def test_measuring_waits_for_the_evaluation_of_a_new_model(tmp_path) -> None:
    agent = Driven(tmp_path / "agent.db", evaluates=True)
    agent.connect()
    agent.assign("cat")
    agent.give(inputs.ModelInstalled(0, ACTIVE))
    agent.put(a="cat/a")
    agent.scan()
    assert agent.take(Evaluate)
    assert agent.take(Measure) == []
    agent.give(inputs.Evaluated(None, "nothing there"))
    assert len(agent.take(Measure)) == 1


def test_a_model_that_cannot_measure_is_a_problem_and_stops_nothing(agent: Driven) -> None:
    learn_and_run(agent)
    agent.put(a="cat/a", b="dog/b", c="cat/c")
    agent.scan()
    agent.give(inputs.UncertaintyMeasured(None, reason="model: the provider fell over"))
    assert any("fell over" in text for text in agent.state.told.recent)
    assert agent.job() is not None


def test_off_measures_nothing_and_still_reports_names(tmp_path) -> None:
    agent = Driven(tmp_path / "agent.db", detection=None)
    agent.connect()
    agent.assign("cat")
    agent.give(inputs.ModelInstalled(0, ACTIVE))
    agent.put(a="cat/a", b="owl/b")
    agent.scan()
    assert agent.take(Measure) == []
    assert [told.why for told in transitions(agent)] == ["class name"]


def problems(agent: Driven) -> list[str]:
    """Return what the owner is told to mend."""
    return list(agent.state.told.recent)


def test_a_folder_whose_name_hides_something_is_told_and_never_reported(ready: Driven) -> None:
    hidden, doubled, mixed = "o\u200bwl", "red  owl", "\u043ewl"
    ready.put(a=f"{hidden}/1", b=f"{doubled}/2", c=f"{mixed}/3", d="eel/4")
    ready.scan()
    (told,) = transitions(ready)
    assert dict(told.classes) == {"eel": 1}
    texts = problems(ready)
    assert any("'o\\u200bwl': this name of a class holds U+200B" in text for text in texts)
    assert any("'red  owl': this name of a class has spaces" in text for text in texts)
    assert any("'\\u043ewl': this name of a class has letters of" in text for text in texts)
    assert all("rename its folder" in text for text in texts)


def test_a_folder_that_looks_like_a_class_of_the_fleet_is_told_too(ready: Driven) -> None:
    ready.assign("coco", action=2)
    ready.put(b="\u0441\u043e\u0441\u043e/2")
    ready.scan()
    assert any("looks like the fleet's 'coco'" in text for text in problems(ready))


def test_a_name_that_the_fleet_has_from_before_these_rules_goes_on(ready: Driven) -> None:
    old = "o\u200bwl"
    ready.put(a=f"{old}/1")
    ready.assign(old, action=2)
    assert ready.contents_of_job() == {f"{old}/a": old}
    assert problems(ready) == []
