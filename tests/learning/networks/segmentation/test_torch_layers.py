"""Layers of dense networks by their formulas, what a pass gives, and what frozen norms leave."""

import numpy as np
import pytest
import torch

from fleetledger.learning.errors import TrainingError
from fleetledger.learning.networks.segmentation.network import SegmentationNetwork
from fleetledger.learning.networks.segmentation.registry import build_segmentation
from fleetledger.learning.networks.segmentation.torch_layers import (
    DensePass,
    TorchDenseLayers,
    upsampled,
)
from fleetledger.learning.networks.torch_layers import Mode
from tests.learning.networks.segmentation.reference import (
    SMALL_DEEPLAB,
    halves,
    pictures,
    used,
)

pytestmark = pytest.mark.torch

DEEPLAB = DensePass(SMALL_DEEPLAB)
LAYERS = TorchDenseLayers({}, {}, Mode())
NUMBERS = torch.linspace(-8, 8, 101).double()


def kept(values, rate, layer):
    return values


@pytest.mark.parametrize(
    ("kind", "formula"),
    [
        ("none", lambda x: x),
        ("relu", lambda x: np.maximum(x, 0)),
        ("relu6", lambda x: np.clip(x, 0, 6)),
        ("hard_sigmoid", lambda x: np.clip(x + 3, 0, 6) / 6),
        ("hard_swish", lambda x: x * np.clip(x + 3, 0, 6) / 6),
        ("sigmoid", lambda x: 1 / (1 + np.exp(-x))),
    ],
)
def test_curves_are_their_formulas(kind, formula):
    found = LAYERS.curve(kind, NUMBERS).numpy()
    np.testing.assert_allclose(found, formula(NUMBERS.numpy()), atol=1e-12)


def slow_convolution(values, kernel, bias, stride, dilation, groups):
    """Return the convolution of one picture (c, h, w) as the sum of its definition."""
    outputs, per_group, side, _ = kernel.shape
    pad = side // 2 * dilation
    padded = np.pad(values, ((0, 0), (pad, pad), (pad, pad)))
    height, width = (-(-size // stride) for size in values.shape[1:])
    result = np.zeros((outputs, height, width))
    for output, row, column in np.ndindex(result.shape):
        first = output // (outputs // groups) * per_group
        rows = row * stride + dilation * np.arange(side)
        columns = column * stride + dilation * np.arange(side)
        seen = padded[first : first + per_group][:, rows][:, :, columns]
        result[output, row, column] = (seen * kernel[output]).sum() + bias[output]
    return result


@pytest.mark.parametrize(("stride", "dilation", "groups"), [(1, 1, 1), (2, 1, 2), (1, 3, 4)])
def test_convolutions_dilate_group_and_add_a_bias(stride, dilation, groups):
    random = np.random.default_rng(0)
    kernel, bias = random.normal(size=(8, 4 // groups, 3, 3)), random.normal(size=8)
    values = random.normal(size=(4, 7, 6))
    tensors = {"c.weight": torch.from_numpy(kernel), "c.bias": torch.from_numpy(bias)}
    layers = TorchDenseLayers(tensors, {}, Mode())
    found = layers.convolution("c", torch.from_numpy(values)[None], stride, dilation, groups)
    expected = slow_convolution(values, kernel, bias, stride, dilation, groups)
    np.testing.assert_allclose(found[0].numpy(), expected, atol=1e-12)


def slow_resized(line, size):
    """Return a line of pixels at another size: linear between centres, flat outside them."""
    places = (np.arange(size) + 0.5) * len(line) / size - 0.5
    return np.interp(places, np.arange(len(line)), line)


@pytest.mark.parametrize("size", [(4, 9), (3, 5), (7, 12)])
def test_maps_are_resized_linearly_between_the_centres_of_pixels(size):
    values = np.random.default_rng(1).normal(size=(3, 5))
    wide = np.stack([slow_resized(row, size[1]) for row in values])
    expected = np.stack([slow_resized(column, size[0]) for column in wide.T], axis=1)
    found = upsampled(torch.from_numpy(values)[None, None], size)
    np.testing.assert_allclose(found[0, 0].numpy(), expected, atol=1e-12)


@pytest.mark.parametrize(("side", "size"), [(2, (3, 2)), (3, (4, 3))])
def test_pooling_takes_the_largest_around_every_second_pixel(side, size):
    values = torch.arange(35).reshape(1, 1, 7, 5).double()
    pooled = LAYERS.max_pool(values, side)
    assert pooled.shape[2:] == size
    assert pooled[0, 0, 1, 1] == values[0, 0, 3, 3]


@pytest.mark.parametrize(
    ("network", "stride", "taps"),
    [
        (build_segmentation("small_dense", (3, 20, 30)), 2, [(2, 16), (4, 32), (8, 64), (4, 32)]),
        (SMALL_DEEPLAB, 8, [(4, 16), (8, 32), (8, 64), (8, 128), (8, 8)]),
    ],
)
def test_a_pass_gives_scores_small_and_large_and_the_maps_between(network, stride, taps):
    parameters, buffers = halves(used(network))
    out, _ = DensePass(network)(parameters, buffers, pictures(2, 20, 30), Mode())
    assert network.body.stride == stride
    assert out.small_logits.shape == (2, 4, -(-20 // stride), -(-30 // stride))
    assert out.logits.shape == (2, 4, 20, 30)
    assert torch.equal(out.logits, upsampled(out.small_logits, (20, 30)))
    shapes = [(2, width, -(-20 // step), -(-30 // step)) for step, width in taps]
    assert [tuple(tap.shape) for tap in out.maps] == shapes


def test_gradients_reach_the_trunk_through_every_tap():
    parameters, buffers = halves(used(SMALL_DEEPLAB))
    leaf = parameters["backbone.conv1.weight"].requires_grad_()
    mode = Mode(True, dropout=kept)
    out, _ = DEEPLAB(parameters, buffers, pictures(2, 16, 16), mode)
    for tap in (*out.maps, out.small_logits):
        (gradient,) = torch.autograd.grad(tap.square().sum(), leaf, retain_graph=True)
        assert gradient.abs().max() > 0


def test_the_taps_of_aspp_are_free_of_dropout():
    parameters, buffers = halves(used(SMALL_DEEPLAB))
    asked = []

    def drop(values, rate, layer):
        asked.append((rate, layer))
        return values * 0

    values = pictures(2, 16, 16)
    one, other = (
        DEEPLAB(parameters, buffers, values, Mode(True, dropout=drop))[0] for drop in (drop, kept)
    )
    assert asked == [(0.5, 0)]
    assert torch.equal(one.maps[-1], other.maps[-1])
    assert not torch.equal(one.small_logits, other.small_logits)


def test_a_head_that_grew_gives_its_old_scores_first():
    parameters, buffers = halves(used(SMALL_DEEPLAB))
    grown = {
        **parameters,
        "head.weight": torch.cat([parameters["head.weight"]] * 2),
        "head.bias": torch.cat([parameters["head.bias"]] * 2),
    }
    values = pictures(1, 16, 24)
    old, new = (DEEPLAB(p, buffers, values, Mode())[0] for p in (parameters, grown))
    assert new.logits.shape == (1, 8, 16, 24)
    assert torch.allclose(new.logits[:, :4], old.logits)


def test_a_frozen_norm_trains_by_running_statistics_and_leaves_them():
    network = SegmentationNetwork(SMALL_DEEPLAB.body, frozen_norm="all")
    parameters, buffers = halves(used(network))
    values, mode = pictures(1, 16, 16), Mode(True, dropout=kept)
    trained, changed = DensePass(network)(parameters, buffers, values, mode)
    in_use, _ = DEEPLAB(parameters, buffers, values, Mode())
    assert torch.allclose(trained.small_logits, in_use.small_logits)
    assert all(torch.equal(changed[name], buffers[name]) for name in buffers)


def test_a_frozen_trunk_leaves_the_decoder_to_measure_its_batch():
    network = SegmentationNetwork(SMALL_DEEPLAB.body, frozen_norm="trunk")
    parameters, buffers = halves(used(network))
    values, mode = pictures(2, 16, 16), Mode(True, dropout=kept)
    trained, changed = DensePass(network)(parameters, buffers, values, mode)
    in_use, _ = DEEPLAB(parameters, buffers, values, Mode())
    for ours, theirs in zip(trained.maps[:-1], in_use.maps[:-1], strict=True):
        assert torch.allclose(ours, theirs)
    assert not torch.allclose(trained.maps[-1], in_use.maps[-1])
    moved = {name for name in buffers if not torch.equal(changed[name], buffers[name])}
    assert moved == {name for name in buffers if name.startswith("classifier.")}


def test_without_frozen_norms_one_picture_is_no_batch_and_statistics_follow():
    parameters, buffers = halves(used(SMALL_DEEPLAB))
    mode = Mode(True, dropout=kept)
    with pytest.raises(TrainingError, match="one sample cannot be normalised"):
        DEEPLAB(parameters, buffers, pictures(1, 16, 16), mode)
    _, changed = DEEPLAB(parameters, buffers, pictures(2, 16, 16), mode)
    moved = [name for name in buffers if not torch.equal(changed[name], buffers[name])]
    assert sorted(moved) == sorted(buffers)


def test_equal_networks_make_equal_passes():
    again = SegmentationNetwork(SMALL_DEEPLAB.body)
    assert DensePass(again) == DEEPLAB
    assert DensePass(SegmentationNetwork(SMALL_DEEPLAB.body, frozen_norm="all")) != DEEPLAB
