"""With a root, what is desired goes out once it is released, each time under a higher number."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from fleetledger.coordinator.core import inputs
from fleetledger.coordinator.core.assignments import action_for
from fleetledger.coordinator.core.core import Core
from fleetledger.coordinator.core.entry import EntryBody
from fleetledger.coordinator.core.requests import AnswerOperator, Request
from fleetledger.coordinator.core.rules import ModelRules, ReleaseRules, Rules, StageRules
from fleetledger.coordinator.core.work import SolveHead
from fleetledger.coordinator.topics.devices.commands import AdmitDevice
from fleetledger.coordinator.topics.models.commands import GoBack, PushModel
from fleetledger.coordinator.topics.models.entries import ModelDesired
from fleetledger.coordinator.topics.releases.commands import PublishRoot, SignModel
from fleetledger.coordinator.topics.releases.entries import ReleaseSigned
from fleetledger.schemas.keys import SigningKey
from fleetledger.schemas.models import DesiredModel
from fleetledger.schemas.presence import Heartbeat
from fleetledger.schemas.releases import Release, SignedRelease
from fleetledger.schemas.roots import RootDocument, SignedRoot
from fleetledger.schemas.values import DeviceId
from tests.coordinator.core.harness import Bench, can_learn, contribution, exported, sent
from tests.schemas import signing

RULES = Rules(
    stages=StageRules(quiet_seconds=1, deadline_seconds=1000),
    models=ModelRules(solve_every_seconds=60),
)
ROTATED = signing.root(2, release_keys=(signing.SPARE.verify_key,))


@dataclass
class Safe:
    """A release key that a test puts in and takes out."""

    key: SigningKey | None = None
    signed: list[Release] = field(default_factory=list)

    def __call__(self, release: Release, root: RootDocument) -> SignedRelease | None:
        if not self.is_ready(root):
            return None
        assert self.key is not None
        self.signed.append(release)
        return SignedRelease.of(release, self.key)

    def is_ready(self, root: RootDocument) -> bool:
        return self.key is not None and self.key.verify_key in root.release_keys


class ReleasingBench(Bench):
    """A core with a safe for the release key, two devices and a first model."""

    def __init__(
        self,
        key: SigningKey | None = signing.RELEASE,
        rules: Rules = RULES,
        root: SignedRoot | None = None,
    ) -> None:
        super().__init__(rules)
        self.safe = Safe(key)
        self.core = Core(rules, can_learn=can_learn, sign_release=self.safe)
        if root is not None:
            assert self.publish(root).done
        self.begin("dev-1", "dev-2")
        self.give("dev-1", contribution("a"))
        self.give("dev-2", contribution("b", samples={"dog": 2}))
        self.wait(1)
        self.made = self.make()

    def make(self) -> list[Request]:
        (recipe,) = [r for r in self.wait(600) if isinstance(r, SolveHead)]
        return self.make_model(recipe)

    def publish(self, root: SignedRoot) -> AnswerOperator:
        return self.command(PublishRoot(root=root))

    def releases(self) -> list[Release]:
        """Return the releases in the ledger."""
        found = [body for body, *_ in self.entries if isinstance(body, ReleaseSigned)]
        return [body.signed.release for body in found]

    def last(self, kind: type[EntryBody]) -> int:
        """Return the index of the last entry of a kind."""
        return max(i for i, (body, *_) in enumerate(self.entries) if isinstance(body, kind))

    def more(self) -> list[Request]:
        """Make the next version desired by itself."""
        part = len(self.core.state.contributions.counted)
        self.give("dev-1", contribution(f"more {part}", part=part))
        return self.make()

    def restarted(self) -> Core:
        core = Core(self.rules, can_learn=can_learn, sign_release=self.safe)
        for body, device, time_ns in self.entries:
            core.state.apply(body, device, time_ns)
        return core

    def sign(self, number: int, version: int = 1, **changes: Any) -> AnswerOperator:
        """Hand in a release for what was desired last, signed elsewhere."""
        manifest = exported(version).manifest.digest
        signed = signing.release(number, version=version, manifest=manifest, **changes)
        action = self.last(ModelDesired)
        return self.command(SignModel(action=action, signed=signed))


def told(requests: list[Request]) -> list[DesiredModel]:
    found = sent(requests, DesiredModel)
    assert all(isinstance(body, DesiredModel) for body in found)
    return found  # type: ignore[return-value]


def test_without_a_root_models_go_out_as_they_are() -> None:
    bench = ReleasingBench()
    assert [body.release for body in told(bench.made)] == [None, None]
    assert bench.wait(1) == []
    assert bench.safe.signed == []


def test_what_is_desired_goes_out_with_its_release_and_the_root() -> None:
    bench = ReleasingBench(root=signing.root())
    assert told(bench.made) == []
    (one, two) = told(bench.wait(0))
    assert one == two
    assert one.roots == (signing.root(),)
    assert one.release is not None
    (release,) = bench.releases()
    assert one.release.release == release
    assert (release.fleet, release.number, release.version) == ("orchard", 1, 1)
    assert release.manifest == exported(1).manifest.digest
    assert (release.devices, release.expires_ns) == (None, None)
    assert bench.wait(0) == []


def test_every_push_has_a_higher_number_also_one_that_goes_back() -> None:
    bench = ReleasingBench(root=signing.root())
    bench.wait(0)
    bench.more()
    bench.wait(0)
    bench.command(GoBack())
    (back, _) = told(bench.wait(0))
    bench.command(PushModel(version=2, devices=(DeviceId("dev-2"),)))
    (single,) = told(bench.wait(0))
    assert [(item.number, item.version) for item in bench.releases()] == [
        (1, 1),
        (2, 2),
        (3, 1),
        (4, 2),
    ]
    assert back.version == 1
    assert single.release is not None
    assert single.release.release.devices == ("dev-2",)


def test_a_crash_before_the_commit_gives_the_number_again_and_after_it_the_next() -> None:
    bench = ReleasingBench(root=signing.root())
    before = bench.restarted()
    bench.wait(0)
    lost = before.handle(inputs.Tick(), bench.now_ns).entries
    assert [entry.body.signed.release.number for entry in lost] == [1]  # type: ignore[attr-defined]
    after = bench.restarted()
    assert after.state.trust == bench.core.state.trust
    assert after.handle(inputs.Tick(), bench.now_ns).entries == ()


def test_a_root_that_comes_later_has_what_runs_released() -> None:
    bench = ReleasingBench()
    assert told(bench.handle(inputs.OperatorCommand("t", PublishRoot(root=signing.root())))) == []
    assert [body.release is not None for body in told(bench.wait(0))] == [True, True]


def test_without_the_key_a_push_waits_and_says_so() -> None:
    bench = ReleasingBench(key=None, root=signing.root())
    assert told(bench.made) == told(bench.wait(10)) == told(bench.born("dev-1")) == []
    answer = bench.command(PushModel(version=1))
    assert "waits for `fleetledger model sign 1 --key FILE`" in answer.text
    requests = bench.wait(1)
    assert told(requests) == []
    assert bench.sign(1).done
    assert [item.number for item in bench.releases()] == [1]
    assert [body.version for body in told(bench.born("dev-1"))] == [1]


def test_while_the_next_release_waits_devices_are_told_the_last_one() -> None:
    bench = ReleasingBench(root=signing.root())
    (first, _) = told(bench.wait(0))
    bench.safe.key = None
    bench.more()
    assert told(bench.wait(0)) == []
    assert told(bench.born("dev-1")) == [first]
    beat = Heartbeat(
        welcomed=True,
        desired_action=first.action,
        assignment_action=action_for(bench.core.state, DeviceId("dev-1")),
        outbox_length=1,
        waiting_images=0,
        resident_bytes=0,
        bytes_up=0,
        bytes_down=0,
    )
    assert told(bench.message("dev-1", beat)) == []


@pytest.mark.parametrize(
    ("number", "changes", "says"),
    [
        (2, {}, "is not number 1 for version 1"),
        (1, {"version": 2}, "is not number 1 for version 1"),
        (1, {"fleet": "harbour"}, "sign it again"),
        (1, {"devices": ("dev-1",)}, "on the same devices"),
        (1, {"by": signing.STRANGER}, "does not name for releases"),
        (1, {"by": signing.COORDINATOR}, "does not name for releases"),
    ],
)
def test_a_release_from_elsewhere_must_be_the_one_that_waits(
    number: int, changes: dict[str, Any], says: str
) -> None:
    bench = ReleasingBench(key=None, root=signing.root())
    answer = bench.sign(number, **changes)
    assert not answer.done
    assert says in answer.text
    assert bench.releases() == []


def test_what_is_not_desired_any_more_cannot_be_released() -> None:
    bench = ReleasingBench(key=None, root=signing.root())
    bench.sign(1)
    assert "not desired any more, or has one" in bench.sign(2).text
    assert "no root" in ReleasingBench().sign(1).text


def test_a_release_expires_after_the_days_that_were_set() -> None:
    rules = RULES.model_copy(update={"release": ReleaseRules(expire_days=2)})
    bench = ReleasingBench(rules=rules, root=signing.root())
    now = bench.now_ns
    bench.wait(0)
    assert [item.expires_ns for item in bench.releases()] == [now + 2 * 86_400 * 10**9]


def test_numbers_go_on_where_the_operator_says_after_a_backup() -> None:
    rules = RULES.model_copy(update={"release": ReleaseRules(first_number=50)})
    bench = ReleasingBench(rules=rules, root=signing.root())
    bench.wait(0)
    bench.more()
    bench.wait(0)
    assert [item.number for item in bench.releases()] == [50, 51]


def test_a_new_root_reaches_devices_at_once_and_what_it_voids_is_released_anew() -> None:
    bench = ReleasingBench(root=signing.root())
    (first, _) = told(bench.wait(0))
    bench.command(PushModel(version=1, devices=(DeviceId("dev-2"),)))
    bench.wait(0)
    requests = bench.handle(inputs.OperatorCommand("t", PublishRoot(root=ROTATED)))
    (one, two) = told(requests)
    assert (one.action, one.roots) == (first.action, (signing.root(), ROTATED))
    assert two.roots == one.roots
    assert told(bench.wait(0)) == []
    bench.safe.key = signing.SPARE
    told(bench.wait(0))
    numbers = [(item.number, item.devices) for item in bench.releases()]
    assert numbers == [(1, None), (2, ("dev-2",)), (3, None), (4, ("dev-2",))]
    for device in ("dev-1", "dev-2"):
        (body,) = told(bench.born(device))
        assert body.release is not None
        assert body.release.may_be_signed_by(ROTATED.document.release_keys)
    assert bench.wait(0) == []


def test_a_rotation_that_keeps_the_release_key_releases_nothing_anew() -> None:
    bench = ReleasingBench(root=signing.root())
    bench.wait(0)
    bench.publish(signing.root(2))
    assert bench.wait(0) == []
    assert len(bench.releases()) == 1


@pytest.mark.parametrize(
    ("root", "says"),
    [
        (signing.root(3), "does not follow"),
        (signing.root(1), "does not follow"),
        (signing.root(2, by=signing.ROOTS[:1]), "1 of the 2 signatures"),
        (signing.root(2, fleet="harbour"), "'harbour'"),
    ],
)
def test_a_root_that_devices_would_not_follow_is_not_published(root: SignedRoot, says: str) -> None:
    bench = ReleasingBench(root=signing.root())
    answer = bench.publish(root)
    assert not answer.done
    assert says in answer.text


def test_the_first_root_is_version_one() -> None:
    assert "version 2 is not the next, 1" in ReleasingBench().publish(signing.root(2)).text


def test_after_its_keys_were_lost_a_root_begins_anew_with_a_higher_version() -> None:
    bench = ReleasingBench(root=signing.root())
    bench.wait(0)
    lost = tuple(signing.key("root") for _ in range(2))
    changes = {"root_keys": tuple(item.verify_key for item in lost)}
    anew = signing.root(2, lost, **changes, release_keys=(signing.SPARE.verify_key,))
    assert "0 of the 2" in bench.publish(anew).text
    first = signing.root(1, lost, **changes)
    assert not bench.command(PublishRoot(root=first, anew=True)).done
    assert bench.command(PublishRoot(root=anew, anew=True)).done
    bench.safe.key = signing.SPARE
    bench.wait(0)
    (body, _) = told(bench.wait(0))
    assert body.roots == (anew,)
    assert bench.restarted().state.trust == bench.core.state.trust


def test_a_release_names_no_more_devices_than_fit() -> None:
    bench = ReleasingBench(root=signing.root())
    many = [DeviceId(f"d{number}") for number in range(1001)]
    for device in many:
        bench.command(AdmitDevice(device=device))
    answer = bench.command(PushModel(version=1, devices=tuple(many)))
    assert "push to 1000 at a time" in answer.text
