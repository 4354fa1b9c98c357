"""What a run says of the time that is left, by a clock of the test's own, and in whole runs."""

from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from fleetledger.simulator.errors import EngineError
from fleetledger.simulator.records import StageRecord
from fleetledger.simulator.run import expectation
from fleetledger.simulator.run.expectation import CardMemory, Expectation, about, card_of
from fleetledger.simulator.run.progress import Screen
from fleetledger.simulator.run.runs import resume_run, run_scenario
from fleetledger.simulator.scenario.model import Scenario
from tests.simulator.fake_run import Shape, fake_seed
from tests.simulator.run.direct_engine import DirectEngine

DIGITS = {
    "title": "four digits",
    "data": {"set": "digits", "per_class": 30, "test_per_class": 10},
    "stages": {"lists": [["3", "1"], ["4"]]},
    "devices": {"count": 2},
}
FAKE = fake_seed(Shape(stages=2, devices=3), seed=1)


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def expected(clock: Clock, **sections: object) -> Expectation:
    return Expectation(Scenario.model_validate(DIGITS | sections), clock)


def on_a_card(free: float, stacks: float | None = None) -> Expectation:
    """What is expected on a GPU that stands in for one: no memory of it is taken."""
    of_stacks = None if stacks is None else (lambda: int(stacks * 2**20))
    card = CardMemory(lambda: int(free * 2**20), of_stacks)
    return Expectation(Scenario.model_validate(DIGITS), Clock(), card)


def test_what_of_a_gpu_is_free_is_said_at_the_start() -> None:
    said = on_a_card(76_000, stacks=38_000).at_start()
    assert said == "stacks may take 38,000 MiB of the GPU's 76,000 MiB that are free"
    assert on_a_card(76_000).at_start() == "76,000 MiB of the GPU's memory are free"
    assert not expected(Clock()).at_start()


def test_no_gpu_is_asked_where_none_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expectation, "torch_has_cuda", lambda: False)
    assert card_of(Scenario.model_validate(DIGITS)) is None
    monkeypatch.setattr(expectation, "torch_has_cuda", lambda: True)
    for engine in ({"kind": "mqtt"}, {"device": "cpu"}):
        assert card_of(Scenario.model_validate(DIGITS | {"engine": engine})) is None


def learned(stage: int, seconds: float, peak: float = 300.0) -> StageRecord:
    told = {"seconds": {"total": seconds - 1, "evaluation": 1.0}, "peak_memory_mib": peak}
    return FAKE.records[stage - 1].model_copy(update=told)


def test_the_first_stage_is_the_measure_of_the_rest():
    run = expected(Clock(), seeds=[1, 2, 3])
    run.at_start()
    told = run.stage_done(1, learned(1, 30.0, 512.4))  # 30 of this seed, 60 of each other one
    assert told == (
        "after stage 1: about 2.5 min left, if the others go on as this one did; 512 MiB so far"
    )


def test_nothing_is_said_when_nothing_is_left_or_no_time_was_measured():
    one = {"stages": {"lists": [["3", "1"]]}}
    assert not expected(Clock(), **one).stage_done(1, learned(1, 30.0))
    run = expected(Clock())
    assert not run.stage_done(1, learned(1, 30.0).model_copy(update={"seconds": {"total": 0.0}}))


def test_the_first_round_says_it_earlier():
    clock, rounds = Clock(), {"per_stage": 5}
    run = expected(clock, method={"name": "rounds"}, rounds=rounds)
    screen = Screen(Console(file=StringIO(), width=200), 1)
    screen.expectation = run
    run.at_start()
    screen.seed(0, 1, 0, 2)
    screen.stage(1, 2)
    clock.now += 40.0
    screen.round(1, 5)
    clock.now += 40.0
    screen.round(2, 5)
    lines = screen.console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    told = [line for line in lines if line.startswith("after")]
    assert told == ["after the first round: about 6 min left, if each takes as long"]


def test_times_are_told_with_two_digits():
    told = {0.2: "less than a second", 1.26: "about 1.3 s", 117: "about 120 s"}
    told |= {240: "about 4 min", 4000: "about 67 min", 9000: "about 2.5 h"}
    assert {seconds: about(seconds) for seconds in told} == told


def lines_of(console: Console) -> list[str]:
    lines: list[str] = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    return lines


def shown() -> Console:
    return Console(file=StringIO(), width=200)


def test_a_run_says_once_how_long_the_rest_takes(tmp_path: Path):
    console = shown()
    run_scenario(Scenario.model_validate(DIGITS), tmp_path / "first", console, DirectEngine)
    assert sum(line.startswith("after stage ") for line in lines_of(console)) == 1
    assert any(line.endswith("1.0 s") for line in lines_of(console))  # nobody answered: no pace
    page = (tmp_path / "first" / "report.html").read_text()
    assert "<h3>Profile</h3>" in page


def test_of_a_run_that_is_gone_on_with_nothing_is_expected(tmp_path: Path):
    class Stumbling(DirectEngine):
        def learn(self, stage):
            if stage.number == 2:
                raise EngineError("stage 2: no")
            return super().learn(stage)

    console = shown()
    with pytest.raises(EngineError):
        run_scenario(Scenario.model_validate(DIGITS), tmp_path / "run", shown(), Stumbling)
    resume_run(tmp_path / "run", console, DirectEngine)
    assert not any(line.startswith("after stage ") for line in lines_of(console))
