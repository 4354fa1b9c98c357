"""A device with a root fetches nothing before root, release and manifest were judged."""

from pathlib import Path
from typing import Any

import pytest

from fleetledger.device_agent.core import inputs
from fleetledger.device_agent.core.records import ActiveModel, Height
from fleetledger.device_agent.core.requests import (
    FetchFile,
    InstallModel,
    ReadManifest,
    Request,
    ShadowModel,
)
from fleetledger.device_agent.core.state import Pinned
from fleetledger.schemas.models import DesiredModel, ModelStatus
from fleetledger.schemas.releases import SignedRelease
from fleetledger.schemas.reports import Problem
from fleetledger.schemas.rollouts import Share, place_of
from fleetledger.schemas.roots import SignedRoot
from fleetledger.schemas.values import DeviceId
from tests.device_agent import making
from tests.device_agent.core.driving import Driven
from tests.schemas import signing

DEVICE = DeviceId("dev-1")
ROTATED = signing.root(2, release_keys=(signing.SPARE.verify_key,))
"""The next root: another release key."""


def begun(path: Path) -> Driven:
    agent = Driven(path / "agent.db", pinned=Pinned(DEVICE, signing.root()))
    agent.connect()
    agent.assign("cat")
    agent.receipt_for_nothing()
    agent.requests.clear()
    return agent


@pytest.fixture
def agent(tmp_path: Path) -> Driven:
    return begun(tmp_path)


def released(number: int, version: int = 1, **changes: Any) -> SignedRelease:
    manifest = making.digest(f"manifest {version}")
    return signing.release(number, version=version, manifest=manifest, **changes)


def desired(
    action: int, release: SignedRelease | None, version: int = 1, *roots: SignedRoot
) -> DesiredModel:
    body = making.desired(action, version)
    return body.model_copy(update={"release": release, "roots": roots})


def give(agent: Driven, body: DesiredModel, time_ns: int = 0) -> list[Request]:
    return agent.give(inputs.DesiredArrived(making.COORDINATOR, body, time_ns))


def install(agent: Driven, body: DesiredModel) -> None:
    """Let a desired model that is believed be fetched, read and installed."""
    give(agent, body)
    for request in agent.take(FetchFile):
        agent.give(inputs.FetchFinished(request.offer.digest))
    assert agent.take(ReadManifest) == [ReadManifest(body)]
    agent.give(inputs.ManifestRead(body.action))
    agent.fetch_all()
    (request,) = agent.take(InstallModel)
    active = ActiveModel(body.version, body.manifest.digest)
    agent.give(inputs.ModelInstalled(body.action, active, release=request.desired.release))


def refusal(agent: Driven) -> str:
    """Return the reason of the one report; nothing else may have come of it."""
    statuses = agent.sent(ModelStatus)
    assert agent.requests == []
    (status,) = statuses
    assert isinstance(status, ModelStatus)
    assert status.state == "failed"
    return status.reason


def test_the_manifest_is_fetched_and_read_before_any_file(agent: Driven) -> None:
    body = desired(5, released(1))
    give(agent, body)
    (first,) = agent.take(FetchFile)
    assert first.offer == body.manifest
    agent.give(inputs.FetchFinished(body.manifest.digest))
    assert agent.take(FetchFile) == []
    assert agent.take(ReadManifest) == [ReadManifest(body)]
    agent.give(inputs.ManifestRead(5))
    (head,) = agent.take(FetchFile)
    assert head.offer in body.files


def test_what_is_installed_is_judged_again_by_the_one_who_switches(agent: Driven) -> None:
    give(agent, desired(5, released(1)))
    (first,) = agent.take(FetchFile)
    agent.give(inputs.FetchFinished(first.offer.digest))
    agent.give(inputs.ManifestRead(5))
    (head,) = agent.take(FetchFile)
    agent.give(inputs.FetchFinished(head.offer.digest))
    (request,) = agent.take(InstallModel)
    assert request.check is not None
    assert request.check.root == signing.document()
    assert request.check.heights.keys() == {released(1).signature.key}


def test_a_model_without_a_release_is_refused_and_the_refusal_told_once(agent: Driven) -> None:
    body = desired(5, None)
    give(agent, body)
    assert "release: there is none" in refusal(agent)
    give(agent, body)
    assert agent.requests == []
    assert agent.state.records.desired is None


def test_a_refused_action_does_not_shut_out_what_follows(agent: Driven) -> None:
    give(agent, desired(2**62, released(1, by=signing.STRANGER)))
    assert "does not name for releases" in refusal(agent)
    give(agent, desired(5, released(1)))
    assert len(agent.take(FetchFile)) == 1


def test_a_lower_number_is_refused_and_the_same_one_only_for_the_same_release(
    agent: Driven,
) -> None:
    install(agent, desired(5, released(3)))
    agent.requests.clear()
    give(agent, desired(6, released(2)))
    assert "older than release 3" in refusal(agent)
    give(agent, desired(6, released(3, devices=("dev-1",))))
    assert "another one of that number" in refusal(agent)
    give(agent, desired(6, released(3)))
    assert agent.take(ReadManifest) == [ReadManifest(desired(6, released(3)))]


def test_going_back_is_a_new_number_for_the_old_manifest(agent: Driven) -> None:
    install(agent, desired(5, released(1, 1), 1))
    install(agent, desired(6, released(2, 2), 2))
    give(agent, desired(7, released(1, 1), 1))
    agent.requests.clear()
    install(agent, desired(8, released(3, 1), 1))
    assert agent.state.models.active == ActiveModel(1, making.digest("manifest 1"))


def test_the_highest_number_and_the_root_outlive_a_kill(agent: Driven) -> None:
    signed = released(4, by=signing.SPARE)
    install(agent, desired(5, signed, 1, signing.root(), ROTATED))
    for _ in range(2):
        records = agent.state.records
        assert records.heights == {signed.signature.key: Height(4, signed.release.digest)}
        assert records.root == ROTATED
        assert records.release == signed
        agent.kill()
    agent.connect()
    agent.requests.clear()
    give(agent, desired(6, released(3, by=signing.SPARE)))
    assert "older than release 4" in refusal(agent)


def test_a_number_counts_from_when_it_was_believed_not_from_the_installation(
    agent: Driven,
) -> None:
    give(agent, desired(5, released(4)))
    agent.kill()
    agent.connect()
    agent.requests.clear()
    give(agent, desired(6, released(3)))
    assert "older than release 4" in refusal(agent)


def test_a_root_is_taken_also_where_the_release_is_refused(agent: Driven) -> None:
    give(agent, desired(5, released(1), 1, ROTATED))
    assert "root version 2 does not name" in refusal(agent)
    assert agent.state.records.root == ROTATED
    give(agent, desired(6, released(2)))
    assert "root version 2 does not name" in refusal(agent)


def test_a_root_is_taken_with_a_model_that_is_known_already(agent: Driven) -> None:
    install(agent, desired(5, released(1)))
    give(agent, desired(5, released(1), 1, ROTATED))
    assert agent.state.records.root == ROTATED


def test_an_open_action_whose_key_was_revoked_is_judged_by_the_newer_root(agent: Driven) -> None:
    give(agent, desired(5, released(1)))
    give(agent, desired(5, released(1), 1, ROTATED))
    for name in ("manifest 1", "head 1"):
        agent.give(inputs.FetchFinished(making.digest(name)))
    agent.give(inputs.ManifestRead(5))
    (request,) = agent.take(InstallModel)
    assert request.check is not None
    assert request.check.root == ROTATED.document


def test_a_root_of_a_lower_version_is_refused_with_its_release(agent: Driven) -> None:
    give(agent, desired(5, released(1, by=signing.SPARE), 1, ROTATED))
    agent.requests.clear()
    give(agent, desired(6, released(2, by=signing.SPARE), 1, signing.root()))
    assert "version 1 is offered, and version 2 is known" in refusal(agent)


def test_numbers_of_a_revoked_key_shut_nobody_out(agent: Driven) -> None:
    """Whoever stole the key may have signed the highest number there is."""
    install(agent, desired(5, released(2**62)))
    install(agent, desired(6, released(8, by=signing.SPARE), 1, ROTATED))
    assert agent.state.records.heights.keys() == {released(8, by=signing.SPARE).signature.key}


def test_what_has_expired_is_not_installed_and_runs_on_where_it_is(agent: Driven) -> None:
    install(agent, desired(5, released(1, expires_ns=100)))
    agent.requests.clear()
    give(agent, desired(6, released(2, expires_ns=100)), time_ns=100)
    assert "release 2: has expired" in refusal(agent)
    active = agent.state.models.active
    agent.kill()
    agent.give(inputs.Started(active, time_ns=100))
    agent.connect()
    told = [item.text for item in agent.sent(Problem) if isinstance(item, Problem)]
    assert any("release 1: has expired, and runs on" in text for text in told)
    assert agent.state.models.active == active


def test_a_manifest_that_names_other_files_ends_the_action(agent: Driven) -> None:
    give(agent, desired(5, released(1)))
    agent.give(inputs.FetchFinished(making.digest("manifest 1")))
    agent.requests.clear()
    agent.give(inputs.ModelRefused(5, rolled_back=False, reason="files: do not belong together"))
    (status,) = agent.sent(ModelStatus)
    assert (status.state, status.reason) == ("failed", "files: do not belong together")
    agent.wait(100)
    assert agent.take(FetchFile) == agent.take(ReadManifest) == []


def test_a_manifest_that_is_damaged_is_fetched_again(agent: Driven) -> None:
    give(agent, desired(5, released(1)))
    agent.give(inputs.FetchFinished(making.digest("manifest 1")))
    agent.requests.clear()
    agent.give(inputs.FileDamaged(making.digest("manifest 1")))
    agent.wait(10)
    (again,) = agent.take(FetchFile)
    agent.give(inputs.FetchFinished(again.offer.digest))
    assert len(agent.take(ReadManifest)) == 1


def test_an_action_that_is_overtaken_while_its_manifest_is_read(agent: Driven) -> None:
    give(agent, desired(5, released(1)))
    agent.give(inputs.FetchFinished(making.digest("manifest 1")))
    give(agent, desired(6, released(2, 2), 2))
    agent.take(ReadManifest)
    agent.give(inputs.ModelRefused(5, rolled_back=False, reason="other files"))
    for request in agent.take(FetchFile):
        agent.give(inputs.FetchFinished(request.offer.digest))
    assert [request.desired.action for request in agent.take(ReadManifest)] == [6]


def test_without_a_root_nothing_is_asked_of_a_model(tmp_path: Path) -> None:
    agent = Driven(tmp_path / "other.db")
    agent.connect()
    agent.assign("cat")
    agent.receipt_for_nothing()
    agent.take(FetchFile)
    give(agent, desired(5, released(1, by=signing.STRANGER), 1, ROTATED))
    assert len(agent.take(FetchFile)) == 1
    assert agent.state.records.root is None
    assert agent.state.records.heights == {}


def test_one_signature_lets_a_candidate_be_compared_and_then_run(agent: Driven) -> None:
    install(agent, desired(5, released(1)))
    group = {"rollout": 1, "group": 1}
    shadow = desired(6, released(2, 2), 2).model_copy(update={"mode": "shadow", **group})
    give(agent, shadow)
    for request in agent.take(FetchFile):
        agent.give(inputs.FetchFinished(request.offer.digest))
    agent.give(inputs.ManifestRead(6))
    for request in agent.take(FetchFile):
        agent.give(inputs.FetchFinished(request.offer.digest))
    (kept,) = agent.take(ShadowModel)
    assert kept.check is not None
    agent.give(inputs.CandidateKept(6, ActiveModel(2, making.digest("manifest 2"))))
    assert agent.state.records.release == released(1), "that of the model that runs"
    give(agent, desired(7, released(2, 2), 2).model_copy(update=group))
    agent.give(inputs.ManifestRead(7))
    assert [request.desired.action for request in agent.take(InstallModel)] == [7]


def test_a_release_for_a_share_is_for_the_devices_in_it(agent: Driven) -> None:
    place = place_of("salt", DEVICE)
    outside = released(1, share=Share(salt="salt", below=place))
    give(agent, desired(5, outside))
    assert f"is for a share of the devices, and {DEVICE} is not in it" in refusal(agent)
    give(agent, desired(6, released(1, share=Share(salt="salt", below=place + 1))))
    assert len(agent.take(FetchFile)) == 1
