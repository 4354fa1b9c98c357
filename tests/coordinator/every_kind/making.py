"""Makes the ledger that has an entry of every kind: real core, ledger, makers and statistics.

Two lineages, one after the other: a head of STSA on a frozen backbone, and a network that is
trained in rounds and of which a proxy chooses old models. Devices, owner and proxy are scripted;
time is a number that moves on a little whenever somebody looks at it.

python -m tests.coordinator.every_kind.making home.tar.xz
"""

from __future__ import annotations

import sys
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import numpy as np

from fleetledger.coordinator.core import inputs
from fleetledger.coordinator.core.entry import EntryBody
from fleetledger.coordinator.core.rules import (
    IntakeRules,
    ModelRules,
    RoundRules,
    Rules,
    SilenceRules,
    StageRules,
)
from fleetledger.coordinator.core.state import ENTRY_KINDS
from fleetledger.coordinator.ledger.keys import coordinator_key
from fleetledger.coordinator.models.networks import prepare_network
from fleetledger.coordinator.topics.classes.commands import MergeClasses, RenameClass
from fleetledger.coordinator.topics.clock.commands import CorrectClock
from fleetledger.coordinator.topics.contributions.commands import RetractContributions
from fleetledger.coordinator.topics.contributions.entries import (
    ContributionAccepted,
    ContributionsLeftOut,
    ContributionWithdrawn,
)
from fleetledger.coordinator.topics.devices.commands import AdmitDevice, SettleTwins
from fleetledger.coordinator.topics.devices.entries import (
    DeviceDoubled,
    DevicesHeard,
    DevicesSilent,
)
from fleetledger.coordinator.topics.keys.commands import InviteDevice, RevokeKey
from fleetledger.coordinator.topics.lineages.commands import ImportNetwork
from fleetledger.coordinator.topics.models.commands import HoldModels, PushModel
from fleetledger.coordinator.topics.models.entries import (
    ModelDesired,
    ModelExported,
    TemperatureFitted,
)
from fleetledger.coordinator.topics.models.kinds import not_solved
from fleetledger.coordinator.topics.proxy.entries import OldModelChosen, OldModelMissed
from fleetledger.coordinator.topics.releases.commands import PublishRoot, SignModel
from fleetledger.coordinator.topics.rounds.commands import ResumeRounds
from fleetledger.coordinator.topics.rounds.entries import (
    DescentMarked,
    RoundClosed,
    RoundFailed,
    RoundOpened,
    RoundsStopped,
    WeightsAveraged,
    WeightsPruned,
)
from fleetledger.coordinator.topics.stages.commands import CloseStage
from fleetledger.coordinator.topics.stages.entries import StageClosed
from fleetledger.learning.numerics.calibration import LOGIT_SCALES
from fleetledger.learning.numerics.weights import WeightGrid
from fleetledger.methods.registry import training_coordinator
from fleetledger.schemas.assignments import Assignment
from fleetledger.schemas.contributions import Nothing, PartKey, Withdrawal
from fleetledger.schemas.enrolment import device_key_name
from fleetledger.schemas.envelope import PROXY, Sender, encode
from fleetledger.schemas.keys import KeyName, SigningKey
from fleetledger.schemas.message import Message
from fleetledger.schemas.models import ModelStatus
from fleetledger.schemas.presence import Birth, CoordinatorBirth, Heartbeat, Welcome
from fleetledger.schemas.proxy import Scored, ScoredModel, ScoringOrder
from fleetledger.schemas.releases import Release, SignedRelease
from fleetledger.schemas.reports import ClassResult, Evaluation, Problem, Transition
from fleetledger.schemas.roots import RootDocument, SignedRoot
from fleetledger.schemas.tensors import encode_tensors
from fleetledger.schemas.values import BootId, ClassName, DeviceId, Digest
from fleetledger.transport.clock import Clock
from fleetledger.transport.memory import InMemoryBroker
from tests.coordinator.core.round_bench import ABLE
from tests.coordinator.every_kind.facts import NOT_IN_IT
from tests.coordinator.program.test_shell import samples
from tests.coordinator.round_answers import answer, weights
from tests.coordinator.shell_harness import (
    FLEET,
    MemoryCoordinator,
    ScriptedDevice,
    contribution_of,
    write_home,
)

BEGAN_NS = 1_800_000_000 * 10**9
HOUR = 3600.0
DEVICES = ("dev-1", "dev-2", "dev-3")
CLASSES = ("circle", "square")
DIVERGED = "training: weights are not finite; train with a lower rate"
RULES = Rules(
    stages=StageRules(quiet_seconds=1e6, deadline_seconds=1e9, gather_seconds=0),
    models=ModelRules(solve_every_seconds=0.2),
    intake=IntakeRules(replacement_seconds=0.5),
    rounds=RoundRules(
        per_stage=3,
        quorum=1.0,
        gather_seconds=0,
        pause_seconds=1,
        longest_pause_seconds=2,
        void_rounds=2,
        keep_weights=1,
        retention="all",
        proxy_seconds=60,
        deadline_seconds=1e6,
    ),
    silence=SilenceRules(beat_seconds=1e6, silent_seconds=1e6),
)


@dataclass
class Time:
    """A steady clock and a calendar; the calendar can be set."""

    passed: float = 0.0
    leaped: float = 0.0

    def look(self) -> float:
        self.passed += 0.001
        return self.passed

    def steady_ns(self) -> int:
        return BEGAN_NS + round(self.look() * 1e9)

    def calendar_ns(self) -> int:
        return self.steady_ns() + round(self.leaped * 1e9)


BEAT = Heartbeat(
    welcomed=True, outbox_length=0, waiting_images=0, resident_bytes=0, bytes_up=0, bytes_down=0
)


def birth(*formers: BootId) -> Birth:
    installation = BootId("0123456789abcdef")
    return Birth(installation=installation, capabilities=ABLE, formers=formers)


class Story:
    """A coordinator on the in-memory broker, and those who speak to it."""

    def __init__(self, home: Path) -> None:
        self.home, self.time, self.broker = home, Time(), InMemoryBroker()
        write_home(home, map_width=8, form="exact")
        self.coordinator = self._coordinator()
        self.devices: dict[str, ScriptedDevice] = {}

    def _coordinator(self) -> MemoryCoordinator:
        clock = Clock(seconds=self.time.look, time_ns=self.time.steady_ns)
        return MemoryCoordinator(
            self.home, self.broker, RULES, clock=clock, calendar=self.time.calendar_ns
        )

    def start_again(self) -> None:
        """Close the coordinator and start it, with the settings that lie there now."""
        self.coordinator.close()
        self.coordinator = self._coordinator()
        for device in self.devices.values():
            device._coordinator = self.coordinator

    def close(self) -> None:
        for device in self.devices.values():
            device.close()
        self.coordinator.close()

    def device(self, name: str) -> ScriptedDevice:
        """Return whoever speaks under a name, connected."""
        if name not in self.devices:
            self.devices[name] = ScriptedDevice(name, self.broker, self.coordinator)
        return self.devices[name]

    def say(self, name: str, body: Message, *, leaf: str = "msg") -> None:
        self.device(name).send(body, leaf=leaf)
        self.steps()

    def steps(self, count: int = 5) -> None:
        for _ in range(count):
            self.coordinator.shell.step(0)

    def until(self, kind: type[EntryBody], count: int = 1) -> int:
        """Go on until there are so many entries of a kind; return the index of the last."""
        self.coordinator.until(lambda: self.kinds.count(kind.kind) >= count)
        return max(number for number, name in enumerate(self.kinds) if name == kind.kind)

    @property
    def kinds(self) -> list[str]:
        return self.coordinator.kinds()

    def give(self, name: str, seed: int, *, part: int, revision: int = 0) -> None:
        """Give statistics of 40 samples of a seed, which are accepted."""
        before = self.kinds.count(ContributionAccepted.kind)
        device = self.device(name)
        lineage = self.coordinator.engine.core.state.lineages.current
        assert lineage is not None
        given = samples(seed, 40, int(lineage.feature_width))
        device.give(*contribution_of(self.coordinator, *given, part=part, revision=revision))
        self.until(ContributionAccepted, before + 1)

    def learned(self, version: int) -> int:
        """Go on until a version is exported; return the index of its entry."""
        return self.until(ModelExported, version)


def keys(story: Story) -> None:
    """Tokens, an enrolment, a rotation, a revocation."""
    command, engine = story.coordinator.command, story.coordinator.engine
    name = DeviceId("key-1")
    command(AdmitDevice(device=name))
    token = Digest.of(b"a token")
    expires_ns = story.time.calendar_ns() + round(HOUR * 1e9)
    command(InviteDevice(device=name, invitation=token, expires_ns=expires_ns))
    first, second = (SigningKey.fresh(device_key_name(FLEET, name)).verify_key for _ in range(2))
    engine.process([inputs.EnrolmentProven(name, first, token)])
    engine.process([inputs.RotationProven(name, second, first)])
    command(RevokeKey(device=name, reason="the card was lost"))


def statistics(story: Story) -> None:
    """A stage of STSA, with what devices may do in it and what is said of them."""
    coordinator = story.coordinator
    coordinator.begin(*DEVICES, classes=CLASSES)
    for name in DEVICES:
        story.say(name, birth(), leaf="state")
        story.device(name).wait_for(Welcome)
    story.give("dev-1", 1, part=0)
    story.learned(1)
    story.give("dev-2", 2, part=0)
    story.give("dev-2", 2, part=1)
    story.until(ContributionsLeftOut)
    story.learned(2)
    story.give("dev-1", 3, part=1)
    story.learned(3)
    story.give("dev-1", 4, part=0, revision=1)
    story.learned(4)
    story.say("dev-1", Withdrawal(key=PartKey(stage=1, part=1), revision=9, reason="moved"))
    story.until(ContributionWithdrawn)
    story.learned(5)
    story.say("dev-3", Nothing(stage=1))
    story.say(
        "dev-3",
        Transition(stage=1, number=0, why="class name", classes={ClassName("triangle"): 3}),
    )
    story.say("dev-2", Problem(about="disk", text="2 MiB are left; free some"))
    coordinator.command(
        RetractContributions(device=DeviceId("dev-2"), reason="its owner asked for it")
    )
    story.learned(6)
    story.give("dev-1", 5, part=2)
    story.give("dev-1", 5, part=3)
    story.until(ContributionsLeftOut, 3)
    story.learned(7)
    coordinator.command(RenameClass(old=ClassName("circle"), new=ClassName("ring")))


def models(story: Story) -> None:
    """What devices say of models, and which the operator lets out."""
    coordinator = story.coordinator
    newest = coordinator.engine.core.state.models.newest
    assert newest is not None
    exported = newest.exported
    assert exported is not None
    manifest, version = exported.manifest.digest, exported.version
    story.say("dev-1", ModelStatus(version=version, manifest=manifest, state="active"))
    losses = tuple((1 << 20) * (10 + abs(place - 8)) for place in range(len(LOGIT_SCALES)))
    results = {ClassName("ring"): ClassResult(correct=50, total=60)}
    story.say(
        "dev-1",
        Evaluation(
            version=version,
            manifest=manifest,
            results=results,
            provider="CPUExecutionProvider",
            seconds=0.1,
            bytes_up=1,
            bytes_down=1,
            losses=losses,
        ),
    )
    story.until(TemperatureFitted)
    coordinator.command(HoldModels())
    signing = {role: SigningKey.fresh(KeyName(f"{FLEET}/{role}")) for role in ("root", "release")}
    document = RootDocument(
        fleet=FLEET,
        version=1,
        root_keys=(signing["root"].verify_key,),
        threshold=1,
        release_keys=(signing["release"].verify_key,),
        coordinator_keys=(coordinator_key(story.home, FLEET).verify_key,),
    )
    root = SignedRoot(document=document).signed_by(signing["root"])
    coordinator.command(PublishRoot(root=root))
    coordinator.command(PushModel(version=1, devices=(DeviceId("dev-2"),)))
    action = story.until(ModelDesired)
    first = coordinator.engine.core.state.models.by_version[1].exported
    assert first is not None
    release = Release(
        fleet=FLEET,
        number=1,
        manifest=first.manifest.digest,
        version=1,
        devices=(DeviceId("dev-2"),),
    )
    signed = SignedRelease.of(release, signing["release"])
    coordinator.command(SignModel(action=action, signed=signed))
    state = coordinator.engine.core.state
    failed = not_solved("the disk is full", state.size, state.contributions.learned_names())
    coordinator.engine.process([failed])


def twins(story: Story) -> None:
    """A card that was cloned: both are alive, and the operator says which one goes on."""
    name = DeviceId("dev-3")
    device = story.device(name)
    one = Sender(FLEET, name, BootId.fresh())

    def lives(sender: Sender, *formers: BootId) -> None:
        for body, leaf in ((birth(*formers), "state"), (BEAT, "hb")):
            device._drain()
            births = [item for item in device.received if item.header.kind == CoordinatorBirth.kind]
            sealed = sender.seal(body, sent_ms=0, refers_to=births[-1].message_id)
            device.send_bytes(encode(sealed), leaf)
            story.steps()

    lives(one)
    copy = Sender(FLEET, name, BootId.fresh())
    lives(copy, one.boot)
    lives(one)
    story.until(DeviceDoubled)
    story.coordinator.command(SettleTwins(device=name, installation=one.boot))


def times(story: Story) -> None:
    """Devices that are silent for long and heard again; a calendar that is set right."""
    story.coordinator.command(MergeClasses(source=CLASSES[1], target=ClassName("ring")))
    story.steps()
    story.time.passed += 1.5 * RULES.silence.silent_seconds
    story.until(DevicesSilent)
    story.say("dev-1", BEAT, leaf="hb")
    story.time.passed += HOUR
    story.until(DevicesHeard)
    story.time.leaped -= 24 * HOUR
    story.coordinator.command(CorrectClock())
    story.until(StageClosed)


def order(story: Story, name: str, number: int) -> Assignment:
    """Return the order of a round that a device got."""

    def found() -> list[Assignment]:
        device = story.device(name)
        device._drain()
        told = [
            item.read(Assignment) for item in device.received if item.header.kind == Assignment.kind
        ]
        return [item for item in told if item.round is not None and item.round.number == number]

    orders = story.coordinator.until(found)
    assert isinstance(orders, list)
    return orders[-1]  # type: ignore[no-any-return]


def train(story: Story, number: int) -> ScoringOrder:
    """Answer a round for both devices; return what the proxy is asked of it."""
    give_weights(story, number)
    story.until(WeightsAveraged, number)
    return story.device(PROXY).wait_for(ScoringOrder, number)


def give_weights(story: Story, number: int) -> None:
    """Answer a round for both devices."""
    for place, name in enumerate(DEVICES[:2], start=1):
        asked, device = order(story, name, number), story.device(name)
        sent = weights(device, asked, story.home)
        moved = {key: array + np.float32(place / 4) for key, array in sent.items()}
        payload = encode_tensors(WeightGrid.around(sent).encode(moved))
        device.send(answer(asked, payload, samples={ClassName("star"): 5}), payload)


@contextmanager
def nothing_can_be_averaged() -> Iterator[None]:
    """Let the method fail at the coordinator."""

    def fails(*_: object) -> None:
        raise ModuleNotFoundError("No module named 'torch'")

    with patch.object(training_coordinator("rounds"), "combine", fails):
        yield


def score(asked: ScoringOrder) -> Scored:
    """Answer as a proxy that finds the newest model the best."""
    newest = ScoredModel(round=asked.round, weights=asked.weights.digest, score=0.5)
    return Scored(
        action=asked.action,
        newest=newest,
        scored=(newest,),
        current=newest.weights,
        gradients=2,
        images=5,
        seconds=1.5,
    )


def decline(story: Story, name: str, number: int) -> None:
    """Say that nothing comes of a round."""
    stage = order(story, name, number).stage
    story.say(name, Nothing(stage=stage, round=number, reason=DIVERGED))


def rounds(story: Story) -> None:
    """A network that is trained in rounds, with a proxy; then rounds of which nothing comes."""
    file = story.home / "coordinator.toml"
    method = 'name = "rounds"\n\n[method.settings]\nnetwork = "identity"\n'
    file.write_text(file.read_text("utf-8").partition("[method]")[0] + f"[method]\n{method}")
    story.start_again()
    coordinator = story.coordinator
    network = prepare_network(
        story.home, story.home / "pixels.json", backbone=story.home / "pixels.onnx"
    ).model_copy(update={"proxy": True})
    coordinator.command(ImportNetwork(network=network))
    for name in ("dev-1", "dev-2"):
        story.say(name, birth(), leaf="state")
    story.device(PROXY)
    coordinator.open("star", "cross")
    exported = story.kinds.count(ModelExported.kind)
    story.say(PROXY, score(train(story, 1)))
    story.until(OldModelChosen)
    train(story, 2)
    story.time.passed += 2 * RULES.rounds.proxy_seconds
    story.until(OldModelMissed)
    train(story, 3)
    story.learned(exported + 1)
    coordinator.command(
        RetractContributions(device=DeviceId("dev-2"), reason="its owner asked for it")
    )
    story.until(DescentMarked)
    coordinator.open("moon")
    story.time.passed += 2 * RULES.rounds.proxy_seconds
    story.until(WeightsPruned)
    story.until(RoundOpened, 4)
    with nothing_can_be_averaged():
        give_weights(story, 4)
        story.until(RoundFailed)
    for number in (5,):
        for name in DEVICES[:2]:
            decline(story, name, number)
        story.time.passed += 10
        story.until(RoundClosed, number)
    story.until(RoundsStopped)
    coordinator.command(ResumeRounds())
    coordinator.command(CloseStage())


def pack(home: Path, file: Path) -> None:
    """Write what a home keeps of its ledger, and no private key."""
    kept = ("coordinator.toml", "keys/coordinator.pub", "ledger/ledger.db", "ledger/blobs")
    with tarfile.open(file, "w:xz") as archive:
        for name in kept:
            archive.add(home / name, f"home/{name}")


def main() -> None:
    """Make the ledger, and see that every kind is in it."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        story = Story(home)
        for chapter in (keys, statistics, models, twins, times, rounds):
            chapter(story)
        missing = ENTRY_KINDS.keys() - set(story.kinds) - NOT_IN_IT
        assert not missing, f"no entry of {', '.join(sorted(missing))}"
        story.close()
        pack(home, Path(sys.argv[1]))


if __name__ == "__main__":
    main()
