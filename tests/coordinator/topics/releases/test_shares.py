"""A group of a rollout is released by its share, once, and each device believes what it is told."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from fleetledger.coordinator.core.core import Core
from fleetledger.coordinator.core.requests import Request
from fleetledger.coordinator.errors import CommandError
from fleetledger.coordinator.ledger.reader import ledger_of
from fleetledger.coordinator.paths import ledger_path
from fleetledger.coordinator.settings import CoordinatorSettings, write_new
from fleetledger.coordinator.topics.devices.commands import AdmitDevice, TagDevices
from fleetledger.coordinator.topics.models.commands import HoldModels, PinDevices, PushModel
from fleetledger.coordinator.topics.releases.commands import PublishRoot
from fleetledger.coordinator.topics.releases.entries import ReleaseSigned
from fleetledger.coordinator.topics.releases.views import group_to_sign, waiting
from fleetledger.coordinator.trust.release_key import signed_group, signed_version
from fleetledger.schemas.keys import SigningKey
from fleetledger.schemas.models import DesiredModel
from fleetledger.schemas.releases import Release, check_release
from fleetledger.schemas.roots import SignedRoot
from fleetledger.schemas.tags import TagName, TagSelector, TagValue
from fleetledger.schemas.values import DeviceId
from tests.coordinator.core.harness import can_learn
from tests.coordinator.reports.test_views import write
from tests.coordinator.topics.releases.test_releases import ROTATED, Safe
from tests.coordinator.topics.rollouts.rollout_bench import BAD, RolloutBench
from tests.schemas import signing


def key_file(folder: Path) -> Path:
    """Write the release key where people keep it."""
    key = folder / "release.pem"
    key.write_bytes(signing.RELEASE.pem)
    key.chmod(0o600)
    key.with_suffix(".pub").write_text(f"{signing.RELEASE.verify_key}\n", encoding="ascii")
    return key


class ReleasedBench(RolloutBench):
    """A fleet with a root, whose devices judge every release that they are told."""

    def __init__(self, key: SigningKey | None = signing.RELEASE) -> None:
        super().__init__()
        self.safe = Safe(signing.RELEASE)
        self.core = Core(self.rules, can_learn=can_learn, sign_release=self.safe)
        self.heights: dict[DeviceId, Release] = {}
        self.root: SignedRoot = signing.root(1)
        assert self.command(PublishRoot(root=self.root)).done
        self.command(HoldModels())
        self.devices = self.fleet(20)
        self.settle()
        self.safe.key = key

    def _note(self, requests: list[Request]) -> None:
        super()._note(requests)
        for request in requests:
            body = getattr(request, "body", None)
            if isinstance(body, DesiredModel) and body.roots:
                self._judge(request.device, body)  # type: ignore[union-attr]

    def _judge(self, device: DeviceId, told: DesiredModel) -> None:
        assert told.release is not None
        root = told.roots[-1].document
        if not told.release.may_be_signed_by(root.release_keys):
            return  # it is told the root, and waits
        check_release(told.release, root, device, 0)
        release, former = told.release.release, self.heights.get(device)
        assert (release.version, release.manifest) == (told.version, told.manifest.digest)
        if former is not None and release != former:
            assert release.number > former.number
        self.heights[device] = release

    def signed(self) -> list[Release]:
        """Return the releases of model 2, as often as they were entered."""
        bodies = (body for body, *_ in self.entries if isinstance(body, ReleaseSigned))
        return [body.signed.release for body in bodies if body.signed.release.version == 2]

    def sign(self, home: Path, group: int | None = None) -> str:
        """Sign what a group waits for with a key in a file, as people do elsewhere."""
        home.mkdir(exist_ok=True)
        key = key_file(home)
        self.written(home)
        answer = self.command(signed_group(home, self.rollout.number, group, key, 0))
        self.settle()
        return answer.text

    def written(self, home: Path) -> None:
        """Write the ledger and the settings anew."""
        ledger_path(home).unlink(missing_ok=True)
        (home / "coordinator.toml").unlink(missing_ok=True)
        write_new(home, CoordinatorSettings(fleet=signing.FLEET))
        write(home, self)

    def passes(self, group: int) -> None:
        """Let a group answer well, and soak."""
        self.all_answer(group)
        self.wait(61)
        self.settle()


def test_each_group_has_a_release_of_its_share_and_the_last_one_is_for_all() -> None:
    bench = ReleasedBench()
    bench.begin_rollout()
    one = bench.offered()
    assert len(one) == 1
    for group in (1, 2, 3):
        bench.passes(group)
    assert bench.rollout.stage == "finished"
    assert bench.offered() == bench.devices
    first, second, third = bench.signed()
    assert first.share is not None
    assert second.share is not None
    assert first.share.below < second.share.below
    assert [name for name in bench.devices if first.share.has(DeviceId(name))] == one
    assert (third.share, third.devices, first.devices) == (None, None, None)
    assert [r.number for r in (first, second, third)] == [2, 3, 4]


def test_to_compare_and_to_run_one_signature_is_enough() -> None:
    bench = ReleasedBench()
    bench.begin_rollout(shadow="all", groups=(3, 1.0))
    assert {told.mode for told in bench.told.values() if told.version == 2} == {"shadow"}
    bench.passes(1)
    shadow, run = bench.signed()
    assert shadow == run
    assert {told.mode for told in bench.told.values() if told.version == 2} == {None}


def test_a_device_that_tries_again_needs_no_other_signature() -> None:
    bench = ReleasedBench()
    bench.begin_rollout(groups=(3, 1.0), retries=2, retry_seconds=10.0)
    first = bench.offered(1)
    action = bench.told[DeviceId(first[0])].action
    bench.says(first[0], "failed", reason="the disk is full")
    bench.wait(11)
    bench.settle()
    assert bench.told[DeviceId(first[0])].action > action
    assert bench.told[DeviceId(first[1])].action == action
    assert len(set(map(str, bench.signed()))) == 1


def test_an_offline_key_lets_each_group_go_and_one_at_hand_does_not(tmp_path: Path) -> None:
    bench = ReleasedBench()
    bench.begin_rollout(approve="release-key", groups=(1, 0.5, 1.0), shadow="first")
    assert bench.offered() == []
    assert "model 2 goes out" in bench.sign(tmp_path / "first")
    (one,) = bench.offered()
    assert bench.told[DeviceId(one)].mode == "shadow"
    bench.answers(one)
    bench.settle()
    assert bench.told[DeviceId(one)].mode is None  # the same signature lets it run
    bench.passes(1)
    assert bench.offered() == [one]
    with pytest.raises(CommandError, match="group 1 of rollout 1 waits for no"):
        bench.sign(tmp_path / "none", 1)
    bench.sign(tmp_path / "second", 2)
    assert 1 < len(bench.offered()) < 20
    bench.passes(2)
    bench.sign(tmp_path / "third")
    assert bench.offered() == bench.devices


def test_what_waits_is_named_by_its_group(tmp_path: Path) -> None:
    bench = ReleasedBench(key=None)
    bench.begin_rollout(shadow="first", groups=(2, 1.0))
    bench.written(tmp_path)
    with ledger_of(tmp_path) as ledger:
        (push,) = waiting(ledger)
    assert (push.rollout, push.group, push.devices) == (1, 1, None)
    assert push.share is not None
    settings = CoordinatorSettings(fleet=signing.FLEET)
    action, release = group_to_sign(tmp_path, settings, 1, None, time.time_ns())
    assert (action, release.share, release.devices) == (push.index, push.share, None)
    with pytest.raises(CommandError, match="rollout 7 waits for no release"):
        group_to_sign(tmp_path, settings, 7, None, 0)


def test_going_back_is_a_release_for_all_with_a_higher_number() -> None:
    bench = ReleasedBench()
    bench.begin_rollout(groups=(4, 1.0))
    for device in bench.offered(1):
        bench.answers(device, BAD)
        bench.settle()
    assert bench.rollout.stage == "rolled_back"
    assert {told.version for told in bench.told.values()} == {1}
    last = bench.told[DeviceId(bench.devices[0])].release
    assert last is not None
    assert (last.release.share, last.release.devices) == (None, None)
    assert last.release.number > bench.signed()[-1].number


def test_who_comes_later_is_told_by_its_place() -> None:
    bench = ReleasedBench()
    bench.begin_rollout(groups=(0.5, 1.0))
    share = bench.signed()[0].share
    assert share is not None
    late = [DeviceId(f"late-{number}") for number in range(10)]
    for device in late:
        bench.command(AdmitDevice(device=device))
        bench.born(device)
        bench.settle()
    inside = {device for device in late if share.has(device)}
    assert 0 < len(inside) < 10
    assert {device for device in late if bench.told[device].version == 2} == inside


def test_tags_narrow_a_share_and_who_gets_them_is_told() -> None:
    bench = ReleasedBench()
    tags = {TagName("site"): TagValue("north")}
    north, other = map(DeviceId, bench.devices[:2])
    bench.command(TagDevices(devices=(north,), put=tags))
    bench.begin_rollout(groups=(1.0,), tags=(TagSelector(name=TagName("site")),))
    assert bench.offered() == [north]
    bench.command(TagDevices(devices=(other,), put=tags))
    assert bench.offered() == [north, other]
    assert set(bench.rollout.members) == {north, other}


def test_a_pin_takes_a_device_out_of_its_group_and_its_end_brings_it_back() -> None:
    bench = ReleasedBench()
    bench.begin_rollout(groups=(3, 1.0))
    first = DeviceId(bench.offered(1)[0])
    bench.command(PinDevices(devices=(first,), version=1))
    bench.settle()
    assert bench.told[first].version == 1
    assert first not in bench.rollout.members
    bench.command(PinDevices(devices=(first,)))
    bench.settle()
    assert (bench.told[first].version, bench.told[first].group) == (2, 1)
    assert first in bench.rollout.members
    bench.passes(1)
    bench.passes(2)
    assert bench.rollout.stage == "finished"


def test_a_key_that_the_root_drops_has_every_group_signed_anew() -> None:
    bench = ReleasedBench()
    bench.begin_rollout(groups=(3, 1.0))
    former = bench.offered()
    bench.safe.key = signing.SPARE
    assert bench.command(PublishRoot(root=ROTATED)).done
    bench.heights.clear()  # what a dropped key has signed counts no more on devices, either
    bench.settle()
    assert bench.offered() == former
    told = bench.told[DeviceId(former[0])].release
    assert told is not None
    assert told.may_be_signed_by((signing.SPARE.verify_key,))
    bench.passes(1)
    assert bench.offered() == bench.devices


def test_a_restart_knows_the_same_releases() -> None:
    bench = ReleasedBench()
    bench.begin_rollout(shadow="all")
    bench.passes(1)
    core = Core(bench.rules, can_learn=can_learn, sign_release=bench.safe)
    for body, device, time_ns in bench.entries:
        core.state.apply(body, device, time_ns)
    assert core.state.trust == bench.core.state.trust


def test_a_push_beside_a_rollout_has_the_group_signed_again_where_its_devices_took_more() -> None:
    bench = ReleasedBench()
    bench.begin_rollout(shadow="all", groups=(3, 1.0))
    first = [DeviceId(name) for name in bench.offered(1)]
    bench.command(PushModel(version=1, devices=(first[0],)))
    bench.settle()
    bench.passes(1)
    shadow, run = bench.signed()[:2]
    assert run.number > shadow.number
    assert bench.told[first[0]].version in {1, 2}


def test_the_version_of_a_group_can_be_signed_by_its_number_too(tmp_path: Path) -> None:
    bench = ReleasedBench(key=None)
    bench.begin_rollout(groups=(2, 1.0))
    bench.written(tmp_path)
    assert bench.command(signed_version(tmp_path, 2, key_file(tmp_path), 0)).done
    bench.settle()
    assert len(bench.offered()) == 2
