"""What a run says of time and memory, by a clock of the test's own, and in whole runs."""

from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from fleetledger.schemas.values import Digest
from fleetledger.simulator.errors import EngineError
from fleetledger.simulator.metrics.seed_metrics import SeedMetrics
from fleetledger.simulator.records import StageRecord
from fleetledger.simulator.run import card_memory
from fleetledger.simulator.run.card_memory import CardMemory, card_of
from fleetledger.simulator.run.expecting import Expectation, about
from fleetledger.simulator.run.forecast import Forecasts, MeasuredRun
from fleetledger.simulator.run.progress import Screen
from fleetledger.simulator.run.running import resume_run, run_scenario
from fleetledger.simulator.scenario.model import Scenario
from tests.simulator.fake_run import Shape, fake_seed
from tests.simulator.run.direct_engine import DirectEngine

KIND = Digest.of(b"a scenario")
KNOWN = MeasuredRun(
    day="2026-03-01",
    before_seconds=5.0,
    stage_seconds=(10.0, 20.0),
    after_seconds=2.0,
    other_seconds=203.0,
    peak_memory_mib=614.2,
)
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


def expected(
    folder: Path, clock: Clock, known: MeasuredRun | None = None, **sections: object
) -> Expectation:
    forecasts = Forecasts(folder)
    if known is not None:
        forecasts.keep(KIND, known)
    return Expectation(Scenario.model_validate(DIGITS | sections), forecasts, KIND, clock)


def on_a_card(
    folder: Path, known: MeasuredRun | None, free: float, stacks: float | None = None
) -> Expectation:
    """What is expected on a GPU that stands in for one: no memory of it is taken."""
    forecasts = Forecasts(folder)
    if known is not None:
        forecasts.keep(KIND, known)
    of_stacks = None if stacks is None else (lambda: int(stacks * 2**20))
    card = CardMemory(lambda: int(free * 2**20), lambda: 900 << 20, of_stacks)
    return Expectation(Scenario.model_validate(DIGITS), forecasts, KIND, Clock(), card)


def test_what_a_run_took_of_the_gpu_stands_beside_what_is_free(tmp_path: Path) -> None:
    known = KNOWN.model_copy(update={"gpu_memory_mib": 9000.0})
    assert (
        on_a_card(tmp_path, known, 76_000)
        .at_start()
        .endswith("on 2026-03-01; of the GPU's memory 9,000 MiB, of 76,000 MiB free")
    )
    assert (
        on_a_card(tmp_path, known, 4_000)
        .at_start()
        .endswith("; of the GPU's memory 9,000 MiB, but only 4,000 MiB are free")
    )


def test_what_stacks_may_take_is_said_of_a_run_that_is_not_known(tmp_path: Path) -> None:
    said = on_a_card(tmp_path, None, 76_000, stacks=38_000).at_start()
    assert said.endswith("; stacks may take 38,000 MiB of the GPU's 76,000 MiB that are free")
    said = on_a_card(tmp_path, None, 76_000).at_start()
    assert said.endswith("; 76,000 MiB of the GPU's memory are free")


def test_what_a_run_took_of_the_gpu_is_kept(tmp_path: Path) -> None:
    run = on_a_card(tmp_path, None, 76_000)
    run.at_start()
    run.seed_done(measured(10.0, 20.0))
    run.run_done()
    kept = Forecasts(tmp_path).find(KIND)
    assert kept is not None
    assert kept.gpu_memory_mib == 900


def test_no_gpu_is_asked_where_none_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(card_memory, "torch_has_cuda", lambda: False)
    assert card_of(Scenario.model_validate(DIGITS)) is None
    monkeypatch.setattr(card_memory, "torch_has_cuda", lambda: True)
    for engine in ({"kind": "mqtt"}, {"device": "cpu"}):
        assert card_of(Scenario.model_validate(DIGITS | {"engine": engine})) is None


def learned(stage: int, seconds: float, peak: float = 300.0) -> StageRecord:
    told = {"seconds": {"total": seconds - 1, "evaluation": 1.0}, "peak_memory_mib": peak}
    return FAKE.records[stage - 1].model_copy(update=told)


def measured(*seconds: float) -> SeedMetrics:
    stages = tuple(
        stage.model_copy(update={"seconds": {"total": taken}, "peak_memory_mib": 300.0 + taken})
        for stage, taken in zip(FAKE.metrics.stages, seconds, strict=True)
    )
    return FAKE.metrics.model_copy(update={"stages": stages})


def test_a_known_scenario_is_told_with_time_memory_and_day(tmp_path: Path):
    told = expected(tmp_path, Clock(), KNOWN).at_start()
    assert told == "expected: about 4 min and 610 MiB, as on this machine on 2026-03-01"


def test_an_unknown_one_is_told_to_be_unknown(tmp_path: Path):
    assert expected(tmp_path, Clock()).at_start().startswith("expected: not known")


def test_of_a_run_that_is_gone_on_with_only_the_rest_is_expected(tmp_path: Path):
    run = expected(tmp_path, Clock(), KNOWN, seeds=[1, 2])
    assert run.at_start({1: 2, 2: 1}).startswith("expected: about 3.8 min and")  # 20 + 2 + 203


def test_the_first_stage_corrects_what_was_known_by_its_own_time(tmp_path: Path):
    run = expected(tmp_path, Clock(), KNOWN)
    run.at_start()
    told = run.stage_done(1, learned(1, 20.0))
    assert told == (
        "after stage 1: about 7.5 min left, since it took 20 s, and 10 s on 2026-03-01; "
        "300 MiB so far"
    )
    assert not run.stage_done(1, learned(2, 20.0))


def test_the_first_stage_is_the_measure_of_the_rest_where_nothing_was_known(tmp_path: Path):
    run = expected(tmp_path, Clock(), seeds=[1, 2, 3])
    run.at_start()
    told = run.stage_done(1, learned(1, 30.0, 512.4))  # 30 of this seed, 60 of each other one
    assert told == (
        "after stage 1: about 2.5 min left, if the others go on as this one did; 512 MiB so far"
    )


def test_nothing_is_said_when_nothing_is_left_or_no_time_was_measured(tmp_path: Path):
    one = {"stages": {"lists": [["3", "1"]]}}
    assert not expected(tmp_path, Clock(), **one).stage_done(1, learned(1, 30.0))
    run = expected(tmp_path, Clock())
    assert not run.stage_done(1, learned(1, 30.0).model_copy(update={"seconds": {"total": 0.0}}))


def test_the_first_round_says_it_earlier(tmp_path: Path):
    clock, rounds = Clock(), {"per_stage": 5}
    run = expected(tmp_path, clock, method={"name": "rounds"}, rounds=rounds)
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


def test_a_run_is_remembered_with_what_its_seeds_and_it_took(tmp_path: Path):
    clock = Clock()
    run = expected(tmp_path, clock, seeds=[1, 2])
    run.at_start()
    clock.now += 3.0
    for before in (4.0, 2.0):
        run.seed_begins()
        clock.now += before
        run.seed_is_prepared()
        clock.now += 31.5
        run.seed_done(measured(10.0, 20.0))
    clock.now += 6.0
    run.run_done()
    kept = Forecasts(tmp_path).find(KIND)
    assert kept is not None
    assert (kept.before_seconds, kept.stage_seconds) == (3.0, (10.0, 20.0))
    assert (kept.after_seconds, kept.other_seconds) == (1.5, 9.0)
    assert kept.peak_memory_mib == 320.0


def test_times_are_told_with_two_digits():
    told = {0.2: "less than a second", 1.26: "about 1.3 s", 117: "about 120 s"}
    told |= {240: "about 4 min", 4000: "about 67 min", 9000: "about 2.5 h"}
    assert {seconds: about(seconds) for seconds in told} == told


@pytest.fixture
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLEETLEDGER_CACHE", str(tmp_path / "cache"))


def lines_of(console: Console) -> list[str]:
    lines: list[str] = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    return lines


def shown() -> Console:
    return Console(file=StringIO(), width=200)


@pytest.mark.usefixtures("_own_cache")
def test_the_second_run_of_a_scenario_is_expected_to_be_as_the_first(tmp_path: Path):
    scenario = Scenario.model_validate(DIGITS)
    first, second, other = shown(), shown(), shown()
    run_scenario(scenario, tmp_path / "first", first, DirectEngine)
    again = scenario.model_copy(update={"seeds": (5,), "title": "the same"})
    run_scenario(again, tmp_path / "second", second, DirectEngine)
    more = scenario.model_copy(update={"devices": scenario.devices.model_copy(update={"count": 3})})
    run_scenario(more, tmp_path / "other", other, DirectEngine)
    assert lines_of(first)[0].startswith("expected: not known")
    assert any(line.startswith("after stage 1: ") for line in lines_of(first))
    assert "100 MiB, as on this machine on " in lines_of(second)[0]  # as the engine says of itself
    assert lines_of(other)[0].startswith("expected: not known")
    assert any(line.endswith("1.0 s") for line in lines_of(first))  # nobody answered: no pace
    page = (tmp_path / "first" / "report.html").read_text()
    assert "<h3>Profile</h3>" in page


@pytest.mark.usefixtures("_own_cache")
def test_a_run_in_two_goes_is_not_taken_for_what_one_takes(tmp_path: Path):
    class Stumbling(DirectEngine):
        def learn(self, stage):
            if stage.number == 2:
                raise EngineError("stage 2: no")
            return super().learn(stage)

    scenario, console = Scenario.model_validate(DIGITS), shown()
    with pytest.raises(EngineError):
        run_scenario(scenario, tmp_path / "run", shown(), Stumbling)
    resume_run(tmp_path / "run", shown(), DirectEngine)
    run_scenario(scenario, tmp_path / "again", console, DirectEngine)
    assert lines_of(console)[0].startswith("expected: not known")


@pytest.mark.usefixtures("_own_cache")
def test_a_run_whose_cache_cannot_be_written_is_finished_all_the_same(tmp_path: Path):
    console = shown()
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "forecasts").write_text("a file where a folder should be")
    run_scenario(Scenario.model_validate(DIGITS), tmp_path / "run", console, DirectEngine)
    assert any("is not kept for the next one" in line for line in lines_of(console))
    assert (tmp_path / "run" / "report.html").exists()
