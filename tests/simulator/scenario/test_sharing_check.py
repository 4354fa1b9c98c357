"""Scenarios that distil on images which all devices have: the word of owners, public files."""

import pytest

from fleetledger.simulator.errors import ScenarioError
from fleetledger.simulator.scenario.loading import load_scenario

pytestmark = pytest.mark.torch

FORBIDDEN = "devices.policy.publish_images=false"
PUBLIC = "method.settings.shared_set=public"


def test_owners_must_allow_images_to_leave_as_on_real_devices():
    assert load_scenario("digits-dcid").devices.policy.publish_images
    with pytest.raises(ScenarioError, match=r"publish_images: false, but 'dcid'.*'synthetic'"):
        load_scenario("digits-dcid", [FORBIDDEN])


@pytest.mark.parametrize(
    "settings",
    [
        ["method.settings.shared_set=synthetic"],
        ["method.settings.preset=dcil-icarl-fedavg"],
        ["method.settings.shared_per_class=0"],
    ],
)
def test_nothing_is_asked_of_owners_where_nothing_is_shared(settings: list[str]):
    assert not load_scenario("digits-dcid", [FORBIDDEN, *settings]).devices.policy.publish_images


def test_public_images_come_from_a_file_and_only_where_they_are_used():
    with pytest.raises(ScenarioError, match=r"method.public_images: missing"):
        load_scenario("digits-dcid", [FORBIDDEN, PUBLIC])
    given = load_scenario("digits-dcid", [FORBIDDEN, PUBLIC, "method.public_images=/pictures.npz"])
    assert given.method.public_images == "/pictures.npz"
    with pytest.raises(ScenarioError, match=r"method.public_images: '/pictures.npz', but"):
        load_scenario("digits-dcid", ["method.public_images=/pictures.npz"])
