"""A picture with a mask shows several classes, and counts as one image."""

from fleetledger.device_agent.core import inputs, requests
from fleetledger.device_agent.core.scans import sight, waiting_classes
from fleetledger.schemas.values import ClassName
from tests.device_agent import making
from tests.device_agent.core.driving import Driven

CAT, DOG, OWL = ClassName("cat"), ClassName("dog"), ClassName("owl")
SCENE = inputs.Image("images/one.png", making.digest("one"), OWL, (CAT, DOG))


def test_a_sighting_keeps_every_class_that_a_mask_shows() -> None:
    sightings, problems = sight([SCENE], {})
    assert sightings[SCENE.digest].shown == (OWL, CAT, DOG)
    assert not problems


def test_every_unknown_class_waits(agent: Driven) -> None:
    agent.connect()
    agent.order()
    sightings, _ = sight([SCENE], {})
    assert waiting_classes(agent.state.records, sightings) == {OWL: 1}


def test_a_scene_is_trained_on_once_any_of_its_classes_has_a_row(agent: Driven) -> None:
    agent.connect()
    agent.scenes = (SCENE,)
    agent.order()
    (asked,) = agent.take(requests.Train)
    assert [(image.path, image.class_name) for image in asked.images] == [("images/one.png", CAT)]
