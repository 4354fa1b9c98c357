"""What commands show of contributions, classes, stages, models and rounds."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fleetledger.coordinator.cli.coordinator import app
from fleetledger.coordinator.core.rules import ModelRules, Rules, StageRules
from fleetledger.coordinator.core.state_fold import state_of
from fleetledger.coordinator.core.work import AverageRound
from fleetledger.coordinator.errors import CommandError
from fleetledger.coordinator.ledger.entries import EntryDraft
from fleetledger.coordinator.ledger.reader import ledger_of
from fleetledger.coordinator.ledger.store import Ledger
from fleetledger.coordinator.paths import ledger_path
from fleetledger.coordinator.reports.fleet import fleet_now
from fleetledger.coordinator.topics.classes.commands import MergeClasses, RenameClass
from fleetledger.coordinator.topics.devices.entries import DevicesHeard, DevicesSilent
from fleetledger.coordinator.topics.lineages.entries import NetworkImported
from fleetledger.coordinator.topics.models import queries as model_queries
from fleetledger.coordinator.topics.proxy import views as proxy_views
from fleetledger.coordinator.topics.proxy.views import OldModelRow
from fleetledger.coordinator.topics.rounds import views as round_views
from fleetledger.coordinator.topics.rounds.entries import RoundOpened
from fleetledger.coordinator.topics.rounds.views import DeclinedRow
from fleetledger.coordinator.topics.stages import views as stage_views
from fleetledger.coordinator.topics.stages.commands import CloseStage
from fleetledger.schemas.contributions import Nothing, PartKey, Withdrawal
from fleetledger.schemas.models import ModelStatus
from fleetledger.schemas.reports import ClassResult, Evaluation, Transition, Uncertainty
from fleetledger.schemas.rounds import Observation, RoundAnswer
from fleetledger.schemas.values import DeviceId
from tests.coordinator.core.harness import SECOND, Bench, contribution, exported, names
from tests.coordinator.core.phase_bench import SHARING, PhaseBench
from tests.coordinator.core.round_bench import NETWORK, RoundBench
from tests.coordinator.reports import of_home
from tests.coordinator.topics.lineages.test_background import OF_PIXELS, evaluated
from tests.coordinator.topics.models.test_models import wanted
from tests.coordinator.topics.proxy.test_proxy import ProxyBench, model, score, weights
from tests.coordinator.topics.rounds.test_void_rounds import VoidBench

RULES = Rules(stages=StageRules(quiet_seconds=1), models=ModelRules(solve_every_seconds=5))


def story() -> Bench:
    """Two devices, a replaced and a withdrawn part, a merge, a rename, and a model that runs."""
    bench = Bench(RULES)
    bench.begin("dev-1", "dev-2", classes=("cat", "Cat", "dog"))
    bench.give("dev-1", contribution("a", samples={"cat": 3, "dog": 2}))
    bench.give("dev-1", contribution("b", revision=1, samples={"cat": 4}))
    bench.give("dev-1", contribution("w", part=1, samples={"dog": 9}))
    bench.message("dev-1", Withdrawal(key=PartKey(stage=1, part=1), revision=1, reason="moved"))
    bench.give("dev-2", contribution("c", samples={"Cat": 5, "dog": 1}))
    bench.command(MergeClasses(source=names("Cat")[0], target=names("cat")[0]))
    bench.command(RenameClass(old=names("dog")[0], new=names("hound")[0]))
    bench.wait(1)
    bench.make_model(wanted(bench.wait(0)))
    manifest = exported(1).manifest.digest
    bench.message("dev-1", ModelStatus(version=1, manifest=manifest, state="active"))
    evaluation = Evaluation(
        version=1,
        manifest=manifest,
        results={names("cat")[0]: ClassResult(correct=3, total=4)},
        provider="CPUExecutionProvider",
        seconds=0.1,
        bytes_up=10,
        bytes_down=20,
    )
    bench.message("dev-1", evaluation)
    seen = Uncertainty(model_version=1, images=50, value=0.5, baseline=0.25)
    bench.message(
        "dev-1", Transition(stage=1, number=0, why="entropy", classes={}, uncertainty=seen)
    )
    eel = {names("eel")[0]: 3}
    bench.message("dev-2", Transition(stage=1, number=0, why="class name", classes=eel))
    return bench


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A coordinator's home whose ledger holds the story."""
    with Ledger.open(ledger_path(tmp_path)) as ledger:
        for body, device, time_ns in story().entries:
            values = body.model_dump(mode="json")
            draft = EntryDraft(body.kind, "test", values, device, body.blobs, time_ns)
            ledger.append([draft])
    return tmp_path


def test_classes_show_index_other_names_and_the_images_that_are_held(home: Path) -> None:
    found = [(row.index, row.name, row.other_names, row.samples) for row in of_home.classes(home)]
    assert found == [(0, "cat", ("Cat",), 9), (2, "hound", ("dog",), 1)]


def test_stages_say_why_they_were_opened_and_closed(home: Path) -> None:
    (stage,) = of_home.stages(home)
    assert stage.contributions == 2
    assert stage.opened_by == "operator"
    assert "quorum" in stage.closed
    assert "2 of 2 devices" in stage.closed


def test_what_devices_reported_is_shown_until_the_next_stage(home: Path) -> None:
    with ledger_of(home) as ledger:
        first, second = stage_views.reports_in(ledger)
    assert (first.device, first.class_names) == ("dev-1", ())
    assert first.text == "unsure about 50 images: 0.500, so far 0.250 (model 1)"
    assert (second.device, second.class_names) == ("dev-2", ("eel",))


def test_a_stage_that_opened_by_itself_says_which_reports_opened_it(tmp_path: Path) -> None:
    bench = Bench(Rules(stages=StageRules(open="reports", reports_quorum=1, settle_seconds=0)))
    bench.begin("dev-1")
    bench.command(CloseStage())
    eel = {names("eel")[0]: 3}
    bench.message("dev-1", Transition(stage=1, number=0, why="class name", classes=eel))
    bench.wait(0)
    write(tmp_path, bench)
    stages = of_home.stages(tmp_path)
    assert [stage.opened_by for stage in stages] == [
        "operator",
        "reports of 1 device, 1 needed: dev-1 (class folders eel)",
    ]
    with ledger_of(tmp_path) as ledger:
        assert stage_views.reports_in(ledger) == []


def test_devices_show_what_they_gave_and_how_well_their_model_does(home: Path) -> None:
    with ledger_of(home) as ledger:
        first, second = fleet_now(ledger, None, 0).devices
    assert (first.contributions, first.samples, first.active_version) == (1, 4, 1)
    assert first.accuracy is not None
    assert first.accuracy.all is not None
    assert first.accuracy.all.share == 0.75
    assert (second.contributions, second.samples, second.active_version) == (1, 6, None)
    assert second.accuracy is None


@pytest.mark.parametrize(
    ("network", "share", "shown"),
    [(OF_PIXELS, (0.9 + 0.25) / 2, "57.5 mIoU"), (NETWORK, 91 / 104, "87.5")],
)
def test_how_well_a_model_of_pixels_does_is_the_mean_over_classes(
    tmp_path: Path, network: NetworkImported, share: float, shown: str
) -> None:
    write(tmp_path, evaluated(network))
    with ledger_of(tmp_path) as ledger:
        (found,) = state_of(ledger).models.by_device.values()
    assert found.measured is not None
    assert found.measured.share == pytest.approx(share)
    assert (found.measured.mean_iou is not None) == network.segments
    told = CliRunner().invoke(app, ["status", "--home", str(tmp_path)], env={"COLUMNS": "200"})
    assert f" {shown} " in told.output


def test_models_show_where_they_run(home: Path) -> None:
    with ledger_of(home) as ledger:
        known = state_of(ledger).models
    (model,) = model_queries.models(known)
    assert (model.version, model.state, model.running_on) == (1, "desired", 1)
    facts = model_queries.model_facts(known, 1)
    assert facts.class_names == ("cat", "hound")
    assert facts.running_on == ("dev-1",)
    with pytest.raises(CommandError, match="version: 2 is not a model"):
        model_queries.model_facts(known, 2)


def write(home: Path, bench: Bench) -> None:
    """Write the entries of a bench into the ledger of `home`."""
    with Ledger.open(ledger_path(home)) as ledger:
        for body, device, time_ns in bench.entries:
            values = body.model_dump(mode="json")
            ledger.append([EntryDraft(body.kind, "test", values, device, body.blobs, time_ns)])


def test_rounds_show_who_looked_and_what_they_saw(tmp_path: Path) -> None:
    bench = RoundBench(cohort=1)
    bench.lead(NETWORK.model_copy(update={"observes": True}))
    (opened,) = bench.told(RoundOpened)
    assert isinstance(opened, RoundOpened)
    (trains,), (one, other) = opened.cohort, opened.observers
    for device, entropy, images in ((one, 0.5, 30), (other, 2.0, 10)):
        seen = Observation(entropy=entropy, images=images, transition=entropy > 1)
        bench.message(device, Nothing(stage=1, round=1, observation=seen))
    calm = Observation(entropy=0.25, images=20, transition=False)
    told = RoundAnswer(number=1, samples=3, steps=1, seconds=0, observation=calm)
    bench.answer(trains, round=told)
    write(tmp_path, bench)
    (row,) = of_home.rounds(tmp_path)
    assert (row.asked, row.looking) == (1, 2)
    assert row.seen.text == f"entropy 0.667 on 3 devices; new task: {other}"


def test_old_models_show_what_the_proxy_scored_and_chose(tmp_path: Path) -> None:
    bench = ProxyBench()
    bench.say(score(bench.learn(1), 0.75))
    bench.wait(0)
    both = (model(1, 0.75), model(2, 0.5))
    bench.say(score(bench.learn(2), 0.5, scored=both, previous=weights(1), current=weights(2)))
    bench.wait(0)
    bench.learn(3)
    bench.wait(50)
    write(tmp_path, bench)
    with ledger_of(tmp_path) as ledger:
        first, second, third = proxy_views.old_models(ledger)
    assert first == OldModelRow(1, "scored", 0.75, 1, 1, None, 1)
    assert second == OldModelRow(2, "scored", 0.5, 2, 1, 1, 2)
    assert (third.round, third.state, third.score) == (3, "no score within 50 s", None)


def test_rounds_show_who_was_asked_what_counted_and_what_came_of_it(tmp_path: Path) -> None:
    bench = RoundBench(quorum=1.0)
    bench.lead()
    request = bench.whole_round(1)
    assert isinstance(request, AverageRound)
    bench.average(request)
    bench.wait(0)
    bench.answer("dev-1", 2)
    bench.wait(100)
    write(tmp_path, bench)
    first, second = of_home.rounds(tmp_path)
    assert (first.looking, first.seen.text) == (0, "")
    assert (first.asked, first.counted, first.missing, first.samples) == (3, 3, 0, 9)
    assert (first.phase, first.drift, first.state) == ("train", 0.5, "averaged")
    assert (second.number, second.stage, second.round_of_stage) == (2, 1, 2)
    assert (second.counted, second.missing, second.samples) == (0, 2, None)
    assert second.state_told == ("came to nothing: deadline of 100 s, with 1 of 3 answers needed")


def test_rounds_show_what_a_phase_follows_and_who_declined_why(tmp_path: Path) -> None:
    bench = PhaseBench(quorum=0.6)
    bench.lead(SHARING)
    bench.decline("dev-2", reason="policy.publish_images = false")
    bench.finish_phase("dev-1", "dev-3")
    bench.decline("dev-3", 2)  # without data, and that needs no reason
    bench.finish_phase("dev-1", "dev-2")
    write(tmp_path, bench)
    share, train, distil = of_home.rounds(tmp_path)
    assert [row.phase for row in (share, train, distil)] == ["share", "train", "distil"]
    assert [row.follows for row in (share, train, distil)] == [None, None, 2]
    assert distil.asked == 2
    assert train.drift is None, "its answers are no weights"
    with ledger_of(tmp_path) as ledger:
        declined = round_views.declined(ledger)
    assert declined == [DeclinedRow(1, "dev-2", "policy.publish_images = false")]


def test_status_and_rounds_say_that_a_stage_asks_nothing_more_until_it_goes_on(
    tmp_path: Path,
) -> None:
    CliRunner().invoke(app, ["init", "--trial", "--fleet", "bench", "--home", str(tmp_path)])
    bench = VoidBench()
    bench.lead()
    reason = bench.stop().reason
    write(tmp_path, bench)
    for verb in ("status", "rounds"):
        shown = CliRunner().invoke(app, [verb, "--home", str(tmp_path)])
        assert f"stopped: {reason.partition('`')[0]}" in shown.output
    resumed = CliRunner().invoke(app, ["resume-rounds", "--home", str(tmp_path)])
    assert "the next round opens" in resumed.output, resumed.output
    with ledger_of(tmp_path) as ledger:
        assert round_views.stopped_in(ledger) is None
    again = CliRunner().invoke(app, ["resume-rounds", "--home", str(tmp_path)])
    assert isinstance(again.exception, CommandError)
    assert "have not stopped" in str(again.exception)


def test_status_names_silent_devices_and_a_ledger_ahead_of_the_calendar(tmp_path: Path) -> None:
    CliRunner().invoke(app, ["init", "--trial", "--fleet", "bench", "--home", str(tmp_path)])
    bench = Bench(now_ns=time.time_ns() + 365 * 86_400 * SECOND)
    bench.begin("dev-1", "dev-2", "dev-3")
    for body in (
        DevicesSilent(devices=(DeviceId("dev-1"), DeviceId("dev-2")), seconds=86_400),
        DevicesHeard(devices=(DeviceId("dev-1"),)),
    ):
        bench.entries.append((body, None, bench.now_ns))
    write(tmp_path, bench)
    shown = CliRunner().invoke(app, ["status", "--home", str(tmp_path)]).output
    (told,) = [line for line in shown.splitlines() if line.startswith("NOW    Nothing")]
    assert "came of dev-2. (since " in told
    assert "365 days ahead" in shown
    assert "coordinator correct-clock" in shown
    corrected = CliRunner().invoke(app, ["correct-clock", "--home", str(tmp_path)])
    assert "time is set back by 31" in corrected.output
    assert "ahead" not in CliRunner().invoke(app, ["status", "--home", str(tmp_path)]).output
