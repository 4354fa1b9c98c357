"""What nobody trains of a network with adapters, and how it sees pictures."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

from fleetledger.learning.networks.network import Network
from fleetledger.learning.networks.plan import initial_arrays
from fleetledger.learning.networks.registry import build_network
from fleetledger.learning.networks.vision_transformer import VisionTransformer
from fleetledger.simulator.backbones.adapted import adapted_sight, frozen_part
from fleetledger.simulator.backbones.loading import centred
from fleetledger.simulator.errors import BackboneError
from fleetledger.simulator.scenario.backbone import BackboneSettings

TINY = Network(VisionTransformer(16, 4, width=12, blocks=1, heads=3, hidden=20, adapter=5))


def settings(weights: str | None = None, *, centre: bool = False) -> BackboneSettings:
    return BackboneSettings(
        network="torchvision", name="vit_b_16", weights=weights, size=64, centred=centre
    )


def test_without_weights_it_is_random_and_the_same_again() -> None:
    first, again = (frozen_part(settings(), TINY) for _ in range(2))
    assert first.keys() == {plan.name for plan in TINY.body.base_plan()}
    assert all(np.array_equal(first[name], again[name]) for name in first)


def test_of_a_network_that_is_trained_whole_there_is_none() -> None:
    assert frozen_part(BackboneSettings(), build_network("mlp", (4,))) == {}


def test_a_part_that_stays_and_of_which_nobody_says_whose_it_is_is_refused() -> None:
    with pytest.raises(BackboneError, match=r"'pixels', but of the network .* \(`base`\)"):
        frozen_part(BackboneSettings(network="pixels"), TINY)


@pytest.mark.torch
def test_weights_in_a_file_are_taken(tmp_path: Path) -> None:
    arrays = initial_arrays(TINY.body.base_plan(), 7)
    file = tmp_path / "w.safetensors"
    safetensors.numpy.save_file(arrays, file)
    taken = frozen_part(settings(str(file)), TINY)
    assert all(np.array_equal(taken[name], arrays[name]) for name in arrays)
    with pytest.raises(BackboneError, match="there is no such file"):
        frozen_part(settings(str(tmp_path / "gone.safetensors")), TINY)


@pytest.mark.torchvision
def test_pictures_are_seen_as_the_weights_want_them_or_centred() -> None:
    sight = adapted_sight(settings())
    assert (sight.size, sight.shorter_side) == ((64, 64), 73)
    assert sight.mean == (0.485, 0.456, 0.406)
    assert centred(settings(), sight) == sight
    half = centred(settings(centre=True), sight)
    assert (half.mean, half.deviation) == ((0.5,) * 3, (0.5,) * 3)
    assert half.shorter_side == sight.shorter_side
