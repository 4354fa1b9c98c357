"""A method gets what is of use to it, or a sentence that says why it gets nothing."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fleetledger.device_agent.core import inputs, policy, requests
from fleetledger.device_agent.core.policy import refusal
from fleetledger.device_agent.core.state import AgentRules
from fleetledger.device_agent.program.status import describe_policy
from fleetledger.device_agent.settings import PolicySettings
from fleetledger.methods.registry import METHODS, descriptor
from fleetledger.schemas.contributions import Nothing
from fleetledger.schemas.values import ClassName
from tests.device_agent import making
from tests.device_agent.core.driving import Driven

SCENE = inputs.Image("images/one.png", making.digest("one"), ClassName("cat"))


def device(folder: Path, samples: str) -> Driven:
    agent = Driven(
        folder / "agent.db", samples=samples, policy=PolicySettings(publish_features=True)
    )
    agent.scenes = (SCENE,)
    agent.connect()
    return agent


def segmenting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the method of rounds be one that gives pixels classes."""
    fields: dict[str, Any] = {"name": "rounds", "segments": True, "proxy": False, "trains": True}
    told = SimpleNamespace(payload_kinds=("weights",), kind_of=lambda _phase: "weights", **fields)
    monkeypatch.setattr(policy, "descriptor", lambda _name: told)


def test_a_round_of_a_method_without_masks_is_declined_on_scenes(tmp_path: Path) -> None:
    agent = device(tmp_path, "scenes")
    agent.order()
    (said,) = agent.messages()
    assert isinstance(said, Nothing)
    assert said.round == 1
    assert said.reason.startswith("data.samples = 'scenes': method 'rounds' gives samples a class")
    assert agent.take(requests.Train) == []
    assert describe_policy(agent.state) == said.reason


@pytest.mark.parametrize("samples", ["pictures", "text"])
def test_a_round_of_a_method_that_segments_is_declined_without_masks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, samples: str
) -> None:
    segmenting(monkeypatch)
    agent = device(tmp_path, samples)
    agent.order()
    (said,) = agent.messages()
    assert isinstance(said, Nothing)
    assert said.reason.startswith(f"data.samples = '{samples}': method 'rounds' gives every pixel")
    assert "'scenes' in agent.toml" in said.reason
    assert agent.take(requests.Train) == []


@pytest.mark.parametrize("samples", ["scenes", ""])
def test_where_they_fit_or_nobody_says_what_there_is_the_round_is_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, samples: str
) -> None:
    segmenting(monkeypatch)
    agent = device(tmp_path, samples)
    agent.order()
    assert len(agent.take(requests.Train)) == 1


def test_a_stage_of_statistics_does_not_wait_for_scenes(tmp_path: Path) -> None:
    agent = device(tmp_path, "scenes")
    agent.assign("cat", "dog")
    (said,) = agent.messages()
    assert isinstance(said, Nothing)
    assert said.reason.startswith("data.samples = 'scenes': method 'stsa'")
    assert agent.take(requests.ComputePart) == []


def test_every_method_fits_exactly_one_kind_of_device() -> None:
    for name in METHODS:
        refused = {
            samples: bool(
                refusal(
                    AgentRules(samples=samples, policy=PolicySettings(publish_features=True)), name
                )
            )
            for samples in ("pictures", "scenes")
        }
        assert refused == {
            "pictures": descriptor(name).segments,
            "scenes": not descriptor(name).segments,
        }
