"""Made-up motion sensors: the same for the same seed, with people and places; and their network."""

import numpy as np
import pytest

from fleetledger.export.backbone import import_backbone
from fleetledger.export.runtime import LoadedModel
from fleetledger.simulator.backbones.pixels import pixels_backbone
from fleetledger.simulator.backbones.rocket import KERNELS, rocket_backbone
from fleetledger.simulator.datasets.loading import DATA_SETS, DataSettings, load_split
from fleetledger.simulator.datasets.own_split import OwnSplit as Split
from fleetledger.simulator.datasets.samples import domains_of
from fleetledger.simulator.datasets.sensors import ACTIVITIES, PLACES, make_sensors
from fleetledger.simulator.errors import BackboneError, DatasetError
from tests.outside import added


def test_a_seed_gives_the_same_windows_again() -> None:
    one, again, other = (make_sensors(None, seed, train=6, test=3) for seed in (1, 1, 2))
    assert one.train.fingerprint == again.train.fingerprint != other.train.fingerprint
    assert one.train.arrays.shape == (6 * len(ACTIVITIES), 6, 64)
    assert np.bincount(one.test.labels).tolist() == [3] * len(ACTIVITIES)
    digests = {part.digest(i) for part in (one.train, one.test) for i in range(len(part))}
    assert len(digests) == 9 * len(ACTIVITIES)


def test_people_own_windows_of_all_activities_and_places_are_domains() -> None:
    train = make_sensors(None, 1, train=30, people=5).train
    assert train.owners is not None
    for person in range(5):
        assert set(train.labels[train.owners == person]) == set(range(len(ACTIVITIES)))
    domains = domains_of(train)
    assert domains is not None
    assert domains.names == tuple(PLACES)
    assert set(domains.of_sample) == {0, 1, 2}


def test_the_frozen_network_tells_activities_apart_that_a_line_through_numbers_does_not() -> None:
    linear = pytest.importorskip("sklearn.linear_model")
    split = make_sensors(None, 1)
    model = import_backbone(rocket_backbone(split).data, rocket_backbone(split).preprocessing)
    assert model.feature_width == 6 + 2 * 3 * KERNELS
    run = LoadedModel(model.model)
    seen, asked = (
        next(iter(run.run({"array": part.arrays}).values())) for part in (split.train, split.test)
    )
    by_features = linear.RidgeClassifier().fit(seen, split.train.labels)
    by_numbers = linear.RidgeClassifier().fit(_rows(split.train), split.train.labels)
    assert by_features.score(asked, split.test.labels) > 0.75
    assert by_numbers.score(_rows(split.test), split.test.labels) < 0.5


def _rows(samples) -> np.ndarray:
    return samples.arrays.reshape(len(samples), -1)


def test_what_suits_no_windows_is_refused() -> None:
    table = Split.of(np.zeros((4, 3)), [0, 1, 0, 1], test_share=0.5)
    with pytest.raises(BackboneError, match=r"'rocket' sees windows \(channels, time\)"):
        rocket_backbone(table)
    assert pixels_backbone(table, None).preprocessing.shape == (3,)
    with pytest.raises(BackboneError, match=r"size: \[8, 8\], but the samples are arrays of shape"):
        pixels_backbone(table, (8, 8))


def test_options_of_a_scenario_reach_the_function() -> None:
    split = load_split(DataSettings(set="sensors", options={"train": 2, "test": 1}), 1)
    assert (len(split.train), len(split.test)) == (12, 6)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"set": "sensors", "options": {"trian": 2}}, "it takes train, test, people, moments"),
        ({"set": "sensors", "options": {"train": 0}}, r"data\.options\.train: 0; give 1 to"),
        ({"set": "digits", "options": {"train": 2}}, r"data\.options\.train: unknown to the data"),
        ({"set": "array-folder", "root": ".", "options": {"shape": 3}}, "give axes such as"),
    ],
)
def test_options_that_nobody_takes_are_refused(settings: dict, words: str) -> None:
    with pytest.raises(DatasetError, match=words):
        load_split(DataSettings(**settings), 1)


def test_a_data_set_of_ones_own_is_a_function_of_root_seed_and_options() -> None:
    def mine(root, seed, *, noise=0.0):
        random = np.random.default_rng(seed)
        return Split.of(random.normal(noise, 1, (8, 4)), np.arange(8) % 2, test_share=0.25)

    with added(DATA_SETS, "mine", mine):
        split = load_split(DataSettings(set="mine", options={"noise": 3.0}), 2)
        assert len(split.train) == 6
        with pytest.raises(DatasetError, match="'sigma'; it takes noise"):
            load_split(DataSettings(set="mine", options={"sigma": 3.0}), 2)
    with (
        added(DATA_SETS, "none", lambda _root, _seed: None),
        pytest.raises(DatasetError, match=r"'none' made a NoneType; return a fleetledger\.Split"),
    ):
        load_split(DataSettings(set="none"), 1)
