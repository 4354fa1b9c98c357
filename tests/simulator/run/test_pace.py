"""How long the rest of a run takes by its pace, against numbers made up by hand."""

from fleetledger.simulator.run.expectation import Pace
from fleetledger.simulator.scenario.model import Scenario


def scenario(**sections: object) -> Scenario:
    content = {"title": "digits", "data": {"set": "digits"}, "stages": {"count": 3}}
    return Scenario.model_validate(content | sections)


def in_rounds(**sections: object) -> Scenario:
    return scenario(method={"name": "rounds"}, **sections)


def test_without_rounds_every_stage_is_taken_to_last_as_long():
    pace = Pace.of(scenario())
    assert pace.after_stages([10.0], 0, seeds=1) == 20
    assert pace.after_stages([10.0], 0, seeds=3) == 20 + 2 * 30
    assert pace.after_stages([8.0, 10.0], 0, seeds=2) == 10 + 28
    assert pace.after_stages([8.0, 10.0, 12.0], 0, seeds=2) == 30
    assert pace.after_round(1.0, seeds=1) is None


def test_rounds_are_taken_to_last_as_long_as_the_first():
    pace = Pace.of(in_rounds(rounds={"per_stage": 4, "per_first_stage": 10}))
    assert pace.steps == (10, 4, 4)
    assert pace.after_round(2.0, seeds=1) == 2 * 17
    assert pace.after_round(2.0, seeds=3) == 2 * (3 * 18 - 1)
    assert pace.after_stages([20.0], 10, seeds=1) == 2 * 8
    assert pace.after_stages([20.0], 10, seeds=2) == 16 + 36


def test_a_stage_of_another_kind_says_nothing_of_those_that_come():
    first = {"name": "rounds", "rounds": 5}
    pace = Pace.of(scenario(method={"name": "stsa", "first_stage": first}))
    assert pace.steps == (5, 1, 1)
    assert pace.after_round(2.0, seeds=1) is None
    assert pace.after_stages([20.0], 5, seeds=1) is None
    assert pace.after_stages([20.0, 3.0], 0, seeds=2) == 3 + 26
    trained_before = Pace.of(in_rounds(rounds={"per_stage": 4}))
    assert trained_before.after_stages([0.5], 0, seeds=1) is None
