"""Every kind of sample is a value, and settings, models and data sets name the same ones."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from fleetledger.device_agent.kinds import ARRAY, KINDS, NOTHING, PICTURES, SCENES, TEXT, kind_of
from fleetledger.device_agent.settings import AgentDataSettings
from fleetledger.learning.numerics.tokens import MAX_TEXT_BYTES
from fleetledger.schemas.arrays import ArrayPreprocessing
from fleetledger.schemas.models import Preprocessing
from fleetledger.schemas.text import TextPreprocessing
from fleetledger.simulator.datasets.loading import DATA_SETS, stand_in_for


def test_settings_take_every_kind_and_no_other() -> None:
    for name, kind in KINDS.items():
        assert AgentDataSettings(folder=Path("data"), samples=name).kind is kind
    with pytest.raises(ValidationError, match="'films' is unknown; give one of 'pictures', 'text'"):
        AgentDataSettings(folder=Path("data"), samples="films")


def test_the_mode_of_a_model_tells_the_kind_that_it_takes() -> None:
    mean, deviation = (0.0,), (1.0,)
    grey = Preprocessing(mode="L", size=(8, 8), mean=mean, deviation=deviation, input_name="image")
    assert kind_of(grey) is PICTURES
    text = TextPreprocessing(mode="text", tokens="bytes", length=8, pad_id=256, input_name="text")
    assert kind_of(text) is TEXT
    window = ArrayPreprocessing(mode="array", shape=(6, 128), input_name="window")
    assert kind_of(window) is ARRAY


def test_a_shape_is_for_arrays_alone() -> None:
    given = {"folder": Path("data"), "shape": (6, 128)}
    assert AgentDataSettings(samples="array", **given).shape == (6, 128)
    with pytest.raises(ValidationError, match=r"shape: \[6, 128\] with samples = 'pictures'"):
        AgentDataSettings(**given)


def test_a_text_is_refused_at_the_size_that_tokens_allow() -> None:
    assert TEXT.most_bytes == MAX_TEXT_BYTES


@pytest.mark.parametrize("kind", [PICTURES, TEXT, ARRAY, SCENES])
def test_each_kind_has_one_data_set_that_is_made_on_the_spot(kind) -> None:
    made = [name for name, each in DATA_SETS.items() if each.kind is kind and each.stands_in]
    assert made == [stand_in_for(kind)]
    assert not DATA_SETS[made[0]].on_disk
    assert kind.suffix in kind.suffixes


def test_a_device_that_only_runs_models_has_no_samples() -> None:
    assert not NOTHING.suffixes
    assert AgentDataSettings(samples="none").kind is NOTHING
