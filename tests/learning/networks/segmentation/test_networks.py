"""Dense networks by name: shapes and first tensors, without torch."""

import subprocess
import sys
from pathlib import Path

import pytest

from fleetledger.learning.errors import NetworkError
from fleetledger.learning.networks.segmentation.registry import DENSE_BODIES, build_segmentation
from tests.learning.networks.segmentation.reference import NAMES, ROWS, SMALL_DEEPLAB

PROGRAM = """
import sys
sys.modules["torch"] = None
from fleetledger.learning.networks.segmentation.head import grow_from_background
from fleetledger.learning.networks.segmentation.registry import build_segmentation
for name in ("small_dense", "lraspp_mobilenet_v2"):
    network = build_segmentation(name, (3, 48, 48))
    network.check(grow_from_background(network.initial(0, ["a"]), 2), 3)
"""


def test_networks_begin_and_grow_without_torch():
    root = Path(__file__).parents[4]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=root, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", DENSE_BODIES)
def test_no_tensor_is_named_twice_and_the_head_has_its_rows(name):
    network = build_segmentation(name, (3, 64, 48))
    plans = network.body.plan()
    assert len({plan.name for plan in plans}) == len(plans)
    shapes = network.shapes(len(NAMES))
    assert shapes["head.weight"] == (ROWS, network.width)
    assert shapes["head.bias"] == (ROWS,)
    assert not network.stackable


def test_the_coarser_deeplab_has_the_same_tensors_at_stride_16():
    fine, coarse = (
        build_segmentation(f"deeplabv3_resnet101{end}", (3, 64, 64)) for end in ("", "_stride16")
    )
    assert fine.shapes(3) == coarse.shapes(3)
    assert (fine.body.stride, coarse.body.stride) == (8, 16)


def test_initial_tensors_are_those_of_the_shapes_and_of_the_seed():
    first, again, other = (SMALL_DEEPLAB.initial(seed, NAMES) for seed in (1, 1, 2))
    SMALL_DEEPLAB.check(first, len(NAMES))
    assert all((first[name] == again[name]).all() for name in first)
    assert (first["head.weight"] != other["head.weight"]).any()


def test_a_foreign_and_a_missing_tensor_are_named():
    network = build_segmentation("small_dense", (1, 16, 16))
    arrays = network.initial(0, NAMES)
    with pytest.raises(NetworkError, match=r"head\.bias' has shape \(4,\); give \(3,\)"):
        network.check({**arrays, "head.weight": arrays["head.weight"][:3]}, 2)
    with pytest.raises(NetworkError, match="'other' is no tensor"):
        network.check({**arrays, "other": arrays["head.bias"]}, len(NAMES))
    del arrays["backbone.conv0.weight"]
    with pytest.raises(NetworkError, match=r"'backbone\.conv0\.weight' is missing"):
        network.check(arrays, len(NAMES))


@pytest.mark.parametrize(
    ("name", "shape", "told"),
    [
        ("resnet18", (3, 48, 48), "give one of small_dense"),
        ("small_dense", (48, 48), "does not suit small_dense"),
        ("small_dense", (3, 48, 7), "sides of 8 or more"),
        ("lraspp_mobilenet_v2", (1, 48, 48), "channels 1 for"),
        ("lraspp_mobilenet_v3_large", (1, 48, 48), "channels 1 for"),
        ("deeplabv3_mobilenet_v3_large", (4, 48, 48), "channels 4 for"),
    ],
)
def test_what_no_network_can_take_is_refused(name, shape, told):
    with pytest.raises(NetworkError, match=told):
        build_segmentation(name, shape)
