"""Every kind of entry has a sentence that names what it is about."""

from __future__ import annotations

import pytest

from fleetledger.coordinator.core.entry import EntryBody
from fleetledger.coordinator.ledger.entries import Entry
from fleetledger.coordinator.reports.history import sentence_of
from fleetledger.coordinator.topics.contributions.entries import (
    ContributionAccepted,
    NothingReported,
)
from fleetledger.coordinator.topics.devices.entries import DeviceBorn
from fleetledger.coordinator.topics.lineages.entries import FrozenBackbone
from fleetledger.coordinator.topics.models.entries import DeviceEvaluated
from fleetledger.coordinator.topics.proxy.entries import OldModelChosen, OldModelMissed
from fleetledger.coordinator.topics.rounds.commands import ResumeRounds
from fleetledger.coordinator.topics.rounds.entries import RoundClosed, RoundOpened
from fleetledger.schemas.contributions import Nothing
from fleetledger.schemas.proxy import Scored
from fleetledger.schemas.rounds import Observation, RoundAnswer
from fleetledger.schemas.values import BootId, DeviceId
from tests.coordinator.core.harness import CAPABLE, names, offer
from tests.coordinator.core.phase_bench import SHARING, PhaseBench
from tests.coordinator.core.round_bench import NETWORK, RoundBench
from tests.coordinator.reports.test_views import story
from tests.coordinator.topics.lineages.test_background import OF_PIXELS, evaluated
from tests.coordinator.topics.proxy.test_proxy import ProxyBench, model, score, weights
from tests.coordinator.topics.rounds.test_void_rounds import VoidBench


def said(body: EntryBody, device: str | None = None) -> str:
    name = None if device is None else DeviceId(device)
    entry = Entry(0, 0, body.kind, "test", name, body.model_dump(mode="json"))
    return sentence_of(entry)


def test_a_story_can_be_read() -> None:
    told = [
        sentence_of(Entry(index, time_ns, body.kind, "test", device, body.model_dump(mode="json")))
        for index, (body, device, time_ns) in enumerate(story().entries)
    ]
    assert "Device dev-1 may take part from here on." in told
    assert "Stage 1 asks the fleet to learn cat, Cat, dog." in told
    assert (
        "Device dev-1 gave statistics of 4 samples (1 bytes) as part 0 of stage 1, revision 1. "
        "It replaces entry 11." in told
    )
    assert "Device dev-2 has samples of new classes: eel." in told
    assert (
        "Device dev-1 is less sure of new samples than before: 0.500 over 50 of them under model "
        "1, 0.250 so far." in told
    )
    assert (
        "On device dev-1 model 1 was right for 3 of 4 held-out samples (CPUExecutionProvider)."
        in told
    )


def test_what_devices_saw_that_looked_is_said() -> None:
    begins = Observation(entropy=1.25, images=40, transition=True)
    calm = Observation(entropy=0.5, images=30, transition=False)
    looked = NothingReported(nothing=Nothing(stage=1, round=3, observation=begins))
    assert said(looked, device="dev-1") == (
        "Device dev-1 trained on nothing in round 3 and looked at its images with the fleet's "
        "network: mean entropy 1.250 nats over 40 images, and takes them for a new task."
    )
    bench = RoundBench(cohort=2)
    bench.lead(NETWORK.model_copy(update={"observes": True}))
    (opened,) = bench.told(RoundOpened)
    assert isinstance(opened, RoundOpened)
    assert said(opened).endswith(f" Only looking at images: {opened.observers[0]}.")
    told = RoundAnswer(number=1, samples=3, steps=1, seconds=0, observation=calm)
    bench.answer(opened.cohort[0], round=told)
    (answer,) = bench.told(ContributionAccepted)
    assert said(answer, device="dev-1").endswith(
        "learned from 3 samples (5 bytes). Before it trained it looked at its images: mean entropy "
        "0.500 nats over 30 images, and sees no new task."
    )


def test_why_devices_distil_from_a_model_is_said() -> None:
    bench = ProxyBench()
    bench.say(score(bench.learn(1), 0.75))
    bench.wait(0)
    both = (model(1, 0.75), model(2, 0.5))
    chosen = score(
        bench.learn(2), 0.5, scored=both, previous=weights(1), current=weights(2), shifted=True
    )
    bench.say(chosen)
    first, second = bench.told(OldModelChosen)
    assert said(first) == (
        "The proxy scored the model of round 1 at 0.750, by 5 images out of 2 sets of gradients. "
        "Scores of this task: round 1 0.750; the best is that of round 1. Devices in the present "
        "task distil from no old model yet, those that enter the next one from the model of round "
        f"1 ({weights(1).short})."
    )
    assert said(second) == (
        "The proxy scored the model of round 2 at 0.500, by 5 images out of 2 sets of gradients. "
        "New gradients began a task with this round. Scores of this task: round 1 0.750, round 2 "
        "0.500; the best is that of round 1. Devices in the present task distil from the model of "
        f"round 1 ({weights(1).short}), those that enter the next one from the model of round 2 "
        f"({weights(2).short})."
    )


def test_a_proxy_that_has_nothing_to_score_by_or_is_late_is_said() -> None:
    bench = ProxyBench()
    bench.say(Scored(action=bench.learn(1).action, seconds=0, remarks=("no gradients came",)))
    bench.wait(0)
    bench.learn(2)
    bench.wait(50)
    (chosen,), (missed,) = bench.told(OldModelChosen), bench.told(OldModelMissed)
    assert said(chosen) == (
        "The proxy has nothing to score the model of round 1 by. Devices have no old model "
        "to distil from yet. Note: no gradients came."
    )
    assert said(missed) == (
        "The proxy did not score the model of round 2 within 50 s; devices go on with the old "
        "models that they have."
    )


def test_what_devices_train_of_a_network_is_said() -> None:
    behind = FrozenBackbone(name="pixels", frozen=offer("backbone"), feature_width=64)
    short = {name: offer(name).digest.short for name in ("backbone", "base")}
    for changes, what in (
        ({}, "it whole"),
        (
            {"backbone": behind},
            f"it on the 64 features of frozen model {short['backbone']} (pixels)",
        ),
        ({"base": offer("base")}, f"it, all but the tensors in {short['base']}"),
    ):
        body = NETWORK.model_copy(update=changes)
        begins = f"Network {body.digest.short} (mlp) leads: devices train "
        assert said(body) == f"{begins}{what}, in rounds, with rounds."


def test_what_a_network_of_pixels_does_and_how_well_is_said() -> None:
    assert said(OF_PIXELS).endswith(
        "devices train it whole, in rounds, with rounds. It gives every pixel a class, or the "
        "background."
    )
    (body,) = evaluated(OF_PIXELS).told(DeviceEvaluated)
    assert said(body, "dev-1") == (
        "On device dev-1 model 1 has a mean IoU of 57.5 % on the pixels of held-out pictures, over "
        "2 classes with the background (CPUExecutionProvider)."
    )


def test_what_a_phase_was_is_said() -> None:
    bench = PhaseBench(quorum=0.6)
    bench.lead(SHARING)
    reason = "policy.publish_images = false: this device shares no images"
    bench.decline("dev-3", reason=reason)
    for _ in range(3):
        bench.finish_phase(*(d for d in bench.devices if (d, bench.opened.number) != ("dev-3", 1)))
    told = [said(body, device) for body, device, _ in bench.entries]
    ensemble = offer("ensemble 2").digest.short
    assert any(
        text.endswith(
            "in rounds, with rounds. A round has the phases train, then distil. Before a stage's "
            "rounds: share."
        )
        for text in told
    )
    assert f"Device dev-3 declines round 1: {reason}." in told
    assert any(
        "asks dev-1, dev-2, dev-3 for phase 'distil' from weights" in text
        and text.endswith(", going on from what they did in round 2.")
        for text in told
    )
    (passed,) = (text for text in told if text.startswith("Round 2 (phase 'train') left"))
    assert "What came of 3 answers about 9 samples" in passed
    assert passed.endswith(f"goes with them: ensemble {ensemble}.")
    assert any("Gave no answer and said why: dev-3." in text for text in told)


def test_weights_that_were_trained_elsewhere_and_shared_images_are_named() -> None:
    public = NETWORK.model_copy(update={"extras": {"shared": offer("public images")}})
    assert said(public).endswith(f"Every device gets shared {offer('public images').digest.short}.")
    known = NETWORK.model_copy(update={"class_names": names("cat", "dog")})
    assert said(known).endswith("Its first weights know cat, dog.")
    enough = known.model_copy(update={"first_weights_suffice": True})
    assert said(enough).endswith("Its first weights know cat, dog, which need no rounds.")


@pytest.mark.parametrize(
    ("features", "words"),
    [
        (("numpy", "torch"), "CPUExecutionProvider, torch."),
        (("numpy",), "CPUExecutionProvider, no torch, so that it trains no network."),
    ],
)
def test_who_cannot_train_is_known_from_the_birth(features: tuple[str, ...], words: str) -> None:
    able = CAPABLE.model_copy(
        update={"features": frozenset(features), "provider": "CPUExecutionProvider"}
    )
    boot = BootId("0123456789abcdef")
    born = DeviceBorn(boot=boot, installation=boot, capabilities=able)
    assert said(born, "dev-1").endswith(words)


def test_a_stage_that_stops_and_goes_on_says_why() -> None:
    bench = VoidBench()
    bench.lead()
    bench.stop()
    bench.command(ResumeRounds())
    told = [said(body, device) for body, device, _ in bench.entries]
    (stopped,) = (text for text in told if text.startswith("Stage 1 asks nothing more: "))
    assert "dev-1, dev-2, dev-3: training: weights are not finite" in stopped
    assert stopped.endswith("or close the stage.")
    assert "Stage 1 goes on with its rounds: operator." in told
    refused = RoundClosed(
        number=3,
        reason="deadline of 100 s",
        counted=(),
        nothing=(),
        missing=(DeviceId("dev-1"),),
        refused={"weights: NaN": (DeviceId("dev-1"),)},
    )
    assert said(refused).endswith("Missing: dev-1. Refused: dev-1 (weights: NaN).")
