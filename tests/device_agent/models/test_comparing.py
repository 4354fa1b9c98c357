"""Two real models beside each other: what is counted of them, and what a device sends."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fleetledger.device_agent.core import inputs
from fleetledger.device_agent.core.records import ActiveModel, PendingComparison
from fleetledger.device_agent.core.requests import (
    Compare,
    InstallModel,
    ReadThrottling,
    ShadowModel,
)
from fleetledger.device_agent.home.health.machine import Machine
from fleetledger.device_agent.home.store.blobs import BlobFolder
from fleetledger.device_agent.models.comparison import comparer
from fleetledger.device_agent.models.comparison.counts import EntropyTally, latency_bin
from fleetledger.device_agent.models.comparison.images import held_out, unlabelled
from fleetledger.device_agent.models.comparison.live import live_sample_of
from fleetledger.device_agent.models.comparison.running_comparison import LEAST_RUNS
from fleetledger.device_agent.models.inference.installed_model import InstalledModel
from fleetledger.device_agent.models.probation import (
    COMPARISONS_FILE,
    MAX_COMPARISONS,
    comparisons_in,
)
from fleetledger.device_agent.models.slots import ModelSlots
from fleetledger.device_agent.program.device_jobs import LocalDeviceJobs
from fleetledger.device_agent.samples.sources.folder import samples_below
from fleetledger.export.package import ExportedModel, SolvedHead, export_model
from fleetledger.learning.errors import FeatureError
from fleetledger.schemas.models import ModelStatus
from fleetledger.schemas.rollouts import (
    LATENCY_FIRST_SECONDS,
    LATENCY_RATIO,
    ModelComparison,
    Pairs,
)
from fleetledger.schemas.values import ClassName
from fleetledger.transport.memory import InMemoryBroker
from fleetledger.transport.meter import Counts
from tests.device_agent import making
from tests.device_agent import model_files as models
from tests.device_agent.scripted import RunningAgent, ScriptedCoordinator, greet, write_settings

DARK, LIGHT = models.CLASSES
GOOD, FLIPPED = models.exported(1), models.exported(2, flipped=True)


def with_striped(version: int) -> ExportedModel:
    """A model that knows one class more, of which it is never sure."""
    head = np.vstack([models.head_weights(), np.zeros((1, 64))])
    names = (*models.CLASSES, ClassName("striped"))
    return export_model(models.lineage(), SolvedHead(version, "stsa", names, head, 5, 6))


class Shop:
    """Jobs that run one model and may compare others with it."""

    def __init__(self, folder: Path, machine: Machine | None = None) -> None:
        self.home = write_settings(folder)
        self.blobs = BlobFolder(self.home.state_folder / "blobs")
        self.slots = ModelSlots(self.home.state_folder / "slots")
        self.machine = machine
        self.start()
        self.install(GOOD)
        self.labelled = self.home.evaluation_folder
        assert self.labelled is not None

    def start(self) -> None:
        self.jobs = LocalDeviceJobs(self.home, self.blobs, self.slots, Counts, self.machine)

    def set(self, **values: Any) -> None:
        """Start anew with other settings of models."""
        settings = self.home.settings
        model = settings.model.model_copy(update=values)
        self.home = replace(self.home, settings=settings.model_copy(update={"model": model}))
        self.start()

    def install(self, model: ExportedModel) -> inputs.ModelInstalled:
        (event,) = self.jobs.answer(InstallModel(models.store_model(self.blobs, model)))
        assert isinstance(event, inputs.ModelInstalled)
        return event

    def shadow(self, model: ExportedModel) -> PendingComparison:
        (event,) = self.jobs.answer(ShadowModel(models.store_model(self.blobs, model)))
        active = self.slots.active()
        assert isinstance(event, inputs.CandidateKept), event
        assert active is not None
        return PendingComparison(4, 1, "shadow", event.candidate, active.model)

    def compare(self, pending: PendingComparison, *waiting: str) -> ModelComparison:
        """Compare up to the end; nothing but pieces and the end may come."""
        names = frozenset(ClassName(name) for name in waiting)
        while True:
            (event,) = self.jobs.answer(Compare(pending, names))
            if isinstance(event, inputs.Compared):
                assert event.pending == pending
                return ModelComparison.model_validate_json(event.comparison.model_dump_json())
            assert event == inputs.ComparisonGoesOn(pending)


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


def test_each_held_out_image_counts_by_who_has_it_right(shop: Shop) -> None:
    models.put_pictures(shop.labelled, "dark", 1, 2, 3)
    models.put_pictures(shop.labelled, "light", 4, 5)
    found = shop.compare(shop.shadow(FLIPPED))
    assert found.classes == {DARK: Pairs(only_active=3), LIGHT: Pairs(only_active=2)}
    assert (found.candidate_version, found.active_version) == (2, 1)
    assert found.new_classes == ()
    assert found.entropy_active.images == found.entropy_candidate.images == 5
    assert sum(found.cost_active.latency) == sum(found.cost_candidate.latency) == LEAST_RUNS
    assert found.provider == "CPUExecutionProvider"


def test_a_model_beside_an_equal_one_differs_nowhere(shop: Shop) -> None:
    models.put_pictures(shop.labelled, "dark", 1, 2, 3)
    models.put_pictures(shop.home.data_folder, "dark", 7, 8)
    models.put_pictures(shop.home.data_folder, "light", 9)
    found = shop.compare(shop.shadow(models.exported(3)))
    assert found.classes == {DARK: Pairs(both=3)}
    assert (found.agreed, found.unlabelled) == (3, 3)
    assert found.entropy_active == found.entropy_candidate


def test_a_class_that_one_model_lacks_is_told_and_judged_by_nothing_else(shop: Shop) -> None:
    models.put_pictures(shop.labelled, "dark", 1)
    models.put_pictures(shop.labelled, "striped", 2, 3)
    models.put_pictures(shop.labelled, "unknown", 4)
    models.put_pictures(shop.home.data_folder, "striped", 5)
    models.put_pictures(shop.home.data_folder, "waits", 6)
    models.put_pictures(shop.home.data_folder, "anything", 7)
    found = shop.compare(shop.shadow(with_striped(3)), "waits")
    striped = found.classes.pop(ClassName("striped"))
    assert found.classes == {DARK: Pairs(both=1)}
    assert striped.images == 2
    assert (striped.both, striped.only_active) == (0, 0)
    assert found.new_classes == (ClassName("striped"),)
    assert found.unlabelled == 1
    assert found.entropy_active.images == 2


def test_a_class_that_the_candidate_forgot_counts_what_the_active_model_has_right(
    shop: Shop,
) -> None:
    shop.install(with_striped(3))
    models.put_pictures(shop.labelled, "striped", 2, 3)
    found = shop.compare(shop.shadow(models.exported(4)))
    assert found.classes[ClassName("striped")].only_candidate == 0
    assert found.new_classes == ()


def test_a_device_without_images_tells_what_the_models_take(shop: Shop) -> None:
    shop.set(trial=True)
    found = shop.compare(shop.shadow(FLIPPED))
    assert found.classes == {}
    assert found.unlabelled == 0
    assert sum(found.cost_active.latency) == sum(found.cost_candidate.latency) == LEAST_RUNS
    for cost in (found.cost_active, found.cost_candidate):
        assert cost.resident_bytes is not None
        assert 1 << 20 < cost.resident_bytes < 1 << 30


def test_pictures_that_do_not_decode_count_for_neither(shop: Shop) -> None:
    models.put_pictures(shop.labelled, "dark", 1)
    (shop.labelled / "dark" / "broken.png").write_bytes(b"no picture")
    assert shop.compare(shop.shadow(FLIPPED)).classes == {DARK: Pairs(only_active=1)}


def test_no_more_images_are_compared_than_are_allowed(shop: Shop) -> None:
    models.put_pictures(shop.labelled, "dark", *range(9))
    models.put_pictures(shop.labelled, "light", *range(9))
    models.put_pictures(shop.home.data_folder, "dark", *range(9))
    shop.set(compare_images=4)
    found = shop.compare(shop.shadow(FLIPPED))
    assert {name: pairs.images for name, pairs in found.classes.items()} == {DARK: 2, LIGHT: 2}
    assert found.unlabelled <= 4


def test_live_images_are_compared_first_of_those_without_labels(shop: Shop) -> None:
    models.put_pictures(shop.home.data_folder, "dark", 1)
    shop.set(compare_images=4, compare_live=3, compare_live_seconds=0.0)
    sample = live_sample_of(shop.home)
    assert sample is not None
    assert all(sample.offer(models.picture("light")) for _ in range(5))
    assert sample.offer(b"no picture")
    found = shop.compare(shop.shadow(with_striped(3)))
    assert (found.classes, found.unlabelled) == ({}, 3)
    shop.set(compare_live=0)
    assert shop.compare(shop.shadow(FLIPPED)).unlabelled == 1


def test_after_its_time_a_comparison_tells_what_it_has(shop: Shop) -> None:
    models.put_pictures(shop.labelled, "dark", *range(9))
    shop.set(compare_seconds=0.0)
    found = shop.compare(shop.shadow(FLIPPED))
    assert found.classes == {}
    assert sum(found.cost_candidate.latency) > 0


def test_a_comparison_goes_on_where_its_last_piece_ended(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comparer, "PIECE_SECONDS", 1e-9)
    models.put_pictures(shop.labelled, "dark", *range(6))
    assert shop.compare(shop.shadow(FLIPPED)).classes == {DARK: Pairs(only_active=6)}


def break_answers(monkeypatch: pytest.MonkeyPatch, version: int) -> None:
    predict: Callable[..., Any] = InstalledModel.predict

    def broken(model: InstalledModel, images: Any) -> Any:
        if model.manifest.version == version:
            raise FeatureError("scores: NaN")
        return predict(model, images)

    monkeypatch.setattr(InstalledModel, "predict", broken)


def test_a_candidate_that_does_not_answer_fails(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    models.put_pictures(shop.labelled, "dark", 1)
    pending = shop.shadow(FLIPPED)
    break_answers(monkeypatch, 2)
    (event,) = shop.jobs.answer(Compare(pending))
    assert event == inputs.ComparisonFailed(pending, "comparison: scores: NaN")


def test_what_the_active_model_cannot_answer_is_no_fault_of_the_candidate(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    models.put_pictures(shop.labelled, "dark", 1)
    pending = shop.shadow(FLIPPED)
    break_answers(monkeypatch, 1)
    noticed, event = shop.jobs.answer(Compare(pending))
    assert isinstance(noticed, inputs.Noticed)
    assert isinstance(event, inputs.Compared)
    assert event.comparison.classes == {}


def test_a_candidate_that_ends_the_agent_again_and_again_is_not_compared_for_ever(
    shop: Shop,
) -> None:
    pending = shop.shadow(FLIPPED)
    counted = comparisons_in(shop.slots.folder)
    for _ in range(MAX_COMPARISONS - 1):
        assert counted.begin(pending.candidate.manifest) == ""
    (event,) = shop.jobs.answer(Compare(pending))
    assert isinstance(event, inputs.ComparisonFailed)
    assert "ended 5 times while it compared this model" in event.reason
    shop.compare(shop.shadow(models.exported(3)))
    assert not (shop.slots.folder / COMPARISONS_FILE).exists()


def test_the_machine_is_asked_before_and_after(tmp_path: Path) -> None:
    counter = tmp_path / "sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count"
    zone = tmp_path / "sys/class/thermal/thermal_zone0"
    making.write_files(counter.parent, core_throttle_count=b"3")
    making.write_files(zone, temp=b"61500", type=b"cpu")
    shop = Shop(tmp_path / "home", Machine(tmp_path, lambda: ""))
    pending = shop.shadow(FLIPPED)
    found = shop.compare(pending)
    assert (found.throttled, found.celsius) == (0, 61.5)
    assert shop.install(FLIPPED).throttled == 3
    (read,) = shop.jobs.answer(ReadThrottling(pending.candidate))
    assert read == inputs.ThrottlingRead(pending.candidate, 3)


def test_a_switch_names_the_former_model(shop: Shop) -> None:
    event = shop.install(FLIPPED)
    assert event.former == ActiveModel(1, GOOD.manifest.digest)


def test_any_beginning_of_the_images_is_fair(tmp_path: Path) -> None:
    models.put_pictures(tmp_path, "dark", *range(8))
    models.put_pictures(tmp_path, "light", 1, 2)
    below = partial(samples_below, preprocessing=GOOD.manifest.preprocessing)
    chosen = held_out(tmp_path, [LIGHT, DARK], below, 5)
    assert [image.class_name for image in chosen] == [DARK, LIGHT, DARK, LIGHT, DARK]
    making.write_files(tmp_path, **{"loose.png": b"", ".hidden.png": b"", "words.txt": b""})
    others = unlabelled(tmp_path, {"dark"}, below, 100)
    assert [image.path.name for image in others] == ["1.png", "2.png", "loose.png"]


def test_bins_are_those_of_the_protocol() -> None:
    tally = EntropyTally()
    for nats in (0.0, 0.05, 0.25, 11.0):
        tally.add(nats)
    counts = tally.counts()
    assert (counts.bins[0], counts.bins[2], counts.bins[99], len(counts.bins)) == (2, 1, 1, 100)
    assert counts.nats == round(0.05 * 65536) + round(0.25 * 65536) + 11 * 65536
    assert [latency_bin(seconds) for seconds in (0.0, LATENCY_FIRST_SECONDS, 1e9)] == [0, 0, 219]
    assert latency_bin(LATENCY_FIRST_SECONDS * LATENCY_RATIO**10 * 1.01) == 10


def test_a_device_shadows_compares_switches_and_settles(
    broker: InMemoryBroker, coordinator: ScriptedCoordinator, home: Path
) -> None:
    agent = RunningAgent(broker, home)
    greet(coordinator)
    coordinator.desire(
        models.desired_of(GOOD.manifest, GOOD),
        GOOD.manifest.canonical_bytes(),
        *GOOD.files.values(),
    )
    coordinator.wait_for(ModelStatus, lambda body: body.state == "active")
    offered = models.desired_of(FLIPPED.manifest, FLIPPED, 8)
    files = (FLIPPED.manifest.canonical_bytes(), *FLIPPED.files.values())
    rollout = {"rollout": 4, "group": 1, "settle_seconds": 0.2}
    coordinator.desire(offered.model_copy(update={"mode": "shadow", **rollout}), *files)
    status, _ = coordinator.wait_for(ModelStatus, lambda body: body.state == "shadowing")
    assert (status.version, status.previous_version) == (2, 1)
    body, _ = coordinator.wait_for(ModelComparison)
    assert body.classes
    assert all(pairs.only_active == pairs.images for pairs in body.classes.values())
    coordinator.send("rcpt", making.accepted("comparison", body.key))
    coordinator.exchange.withdraw_all_but(frozenset())
    coordinator.send("desired", offered.model_copy(update={"action": 9, **rollout}), retain=True)
    coordinator.wait_for(ModelStatus, lambda body: body.state == "active" and body.version == 2)
    settled, _ = coordinator.wait_for(ModelStatus, lambda body: body.state == "settled")
    assert settled.version == 2
    agent.stop()
    slots = ModelSlots(agent.home.state_folder / "slots")
    assert (slots.active().version, slots.other().version, slots.candidate()) == (2, 1, None)
