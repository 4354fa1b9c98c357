"""First weights: from seed, name and place alone, within their bounds, the same for ever."""

import hashlib

import numpy as np
import pytest

from fleetledger.learning.errors import NetworkError
from fleetledger.learning.networks.head import grow_head, initial_head
from fleetledger.learning.networks.mlp import Mlp
from fleetledger.learning.networks.network import Network
from fleetledger.learning.networks.plan import TensorPlan, is_buffer, linear_plan, uniform
from fleetledger.learning.networks.registry import NETWORKS, build_network
from fleetledger.learning.networks.seeding import stream_key
from fleetledger.learning.numerics.counter_generator import random_words

NETWORK = Network(Mlp(5, (7, 3)))
WITHOUT_BUFFERS = ("vit_b_16", "vit_b_16_lora", "fixed_projection", "identity", "residual_adapter")


def digest(arrays):
    content = b"".join(name.encode() + arrays[name].tobytes() for name in sorted(arrays))
    return hashlib.sha256(content).hexdigest()


def test_the_key_of_a_stream_is_a_digest_of_its_parts():
    wanted = hashlib.sha256(b'[3,"b\\u00e4r",0]').digest()[:8]
    assert stream_key(3, "bär", 0) == int.from_bytes(wanted, "little")
    assert stream_key(1, "2") != stream_key("1", 2)


def test_numbers_are_the_top_bits_of_words_within_the_bound():
    drawn = uniform(9, 4000, 0.3)
    words = random_words(9, 0, 4000).astype(object)
    wanted = [np.float32((2 * (w >> 40) + 1) / 2**24 - 1) * np.float32(0.3) for w in words]
    assert drawn.tolist() == [float(number) for number in wanted]
    assert np.abs(drawn).max() < 0.3
    assert abs(drawn.mean()) < 0.01
    assert abs(drawn.std() - 0.3 / np.sqrt(3)) < 0.01


def test_a_tensor_begins_around_its_centre():
    values = TensorPlan("gain", (50,), 0.1, 1.0).initial(0)
    assert values.dtype == np.float32
    assert 0.9 < values.min() < values.max() < 1.1
    assert TensorPlan("gain", (2,), centre=1.0).initial(0).tolist() == [1, 1]


def test_layers_before_a_relu_keep_the_variance():
    weight = linear_plan("a", 300, 200)[0].initial(1)
    assert weight.shape == (200, 300)
    assert weight.var() == pytest.approx(2 / 300, rel=0.02)


def test_the_first_weights_never_change():
    wanted = "cff32a243c697e5dd4ea2b8b8bbed6251d375c3741593c699545465c8e7db2bd"
    assert digest(NETWORK.initial(1, ["cat", "dog"])) == wanted


def test_another_seed_gives_other_weights():
    one, two = NETWORK.initial(1, ["cat"]), NETWORK.initial(2, ["cat"])
    assert not np.array_equal(one["linear0.weight"], two["linear0.weight"])
    assert not np.array_equal(one["head.weight"], two["head.weight"])


def test_a_row_of_the_head_depends_on_its_name_alone():
    head = initial_head("linear", 8, ["cat", "dog", "owl"], seed=4)
    other = grow_head(initial_head("linear", 8, ["owl"], seed=4), ["cat"], seed=4)
    assert np.array_equal(head["head.weight"][[2, 0]], other["head.weight"])
    assert np.array_equal(head["head.bias"][[2, 0]], other["head.bias"])
    assert np.abs(head["head.weight"]).max() < 1 / np.sqrt(8)


@pytest.mark.parametrize("kind", ["linear", "cosine", "hidden"])
def test_growing_keeps_old_rows_and_all_other_tensors(kind):
    network = Network(Mlp(5, (7, 3)), kind)
    before = network.initial(1, ["cat", "dog"])
    after = grow_head(before, ["emu"], seed=1)
    network.check(after, 3)
    assert after["head.weight"][:2].tolist() == before["head.weight"].tolist()
    others = before.keys() - {"head.weight", "head.bias"}
    assert all(np.array_equal(after[name], before[name]) for name in others)
    assert ("head.scale" in after) == (kind == "cosine")


def test_growing_by_nothing_changes_nothing():
    before = NETWORK.initial(1, ["cat"])
    assert digest(grow_head(before, [], seed=1)) == digest(before)


def test_a_head_may_begin_without_classes():
    NETWORK.check(NETWORK.initial(1, []), 0)


def test_growing_needs_a_head_and_distinct_names():
    with pytest.raises(NetworkError, match=r"'head.weight' is not among"):
        grow_head({}, ["cat"], 1)
    with pytest.raises(NetworkError, match="twice"):
        grow_head(NETWORK.initial(1, []), ["cat", "cat"], 1)


@pytest.mark.parametrize("name", NETWORKS)
def test_every_network_names_its_tensors_once_and_tells_their_shapes(name):
    network = build_network(name, (40,) if NETWORKS[name].of_features else (3, 32, 32))
    plans = network.body.plan()
    assert len({plan.name for plan in plans}) == len(plans)
    arrays = network.initial(0, ["a", "b"])
    assert network.shapes(2) == {key: array.shape for key, array in arrays.items()}
    assert network.shapes(2)["head.weight"] == (2, network.width)
    normalised = any(name.endswith("running_var") for name in arrays)
    assert normalised == any(map(is_buffer, arrays)) == (name not in WITHOUT_BUFFERS)


def test_the_widths_of_features_are_those_of_the_papers():
    names = ("resnet18", "resnet32", "vit_b_16")
    assert [build_network(name, (3, 32, 32)).width for name in names] == [512, 64, 768]


@pytest.mark.parametrize(
    ("name", "shape"),
    [("convnet", (64,)), ("vit_b_16", (1, 32, 32)), ("vit_b_16", (3, 30, 30))]
    + [(name, (3, 32, 32)) for name, known in NETWORKS.items() if known.of_features],
)
def test_inputs_that_a_network_cannot_take_are_refused(name, shape):
    with pytest.raises(NetworkError, match="inputs: "):
        build_network(name, shape)


def test_an_unknown_network_is_refused_with_those_there_are():
    with pytest.raises(NetworkError, match="'vgg' is unknown; the networks are mlp"):
        build_network("vgg", (3, 32, 32))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"head.bias": None}, "'head.bias' is missing"),
        ({"extra": np.zeros(1)}, "'extra' is no tensor of this network"),
        ({"linear1.bias": np.zeros(4)}, r"'linear1.bias' has shape \(4,\); give \(3,\)"),
    ],
)
def test_tensors_that_are_not_the_networks_are_refused_by_name(change, told):
    arrays = NETWORK.initial(1, ["cat"]) | change
    arrays = {name: array for name, array in arrays.items() if array is not None}
    with pytest.raises(NetworkError, match=told):
        NETWORK.check(arrays, 1)
