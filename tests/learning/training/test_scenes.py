"""Windows of scenes: against a reference pixel by pixel, and pictures that say where they are."""

import numpy as np
import pytest
import torch

from fleetledger.learning.errors import TrainingError
from fleetledger.learning.losses.segmentation.pixels import IGNORED
from fleetledger.learning.training.chance import Chance, StepChance, signed
from fleetledger.learning.training.scenes import SceneCrops, check_scenes
from tests.learning.training.scene_reference import slow_window

pytestmark = pytest.mark.torch

KEYS = torch.tensor(signed(Chance(3, "site").key))


def words(number):
    return StepChance.derived(KEYS, epoch=0, batch=0).picture_words(number)


def scenes(number, height, width):
    random = np.random.default_rng(height)
    pictures = random.integers(0, 256, (number, 3, height, width), np.uint8)
    masks = random.integers(0, 9, (number, height, width), np.uint8)
    return torch.from_numpy(pictures), torch.from_numpy(masks)


@pytest.mark.parametrize(
    ("height", "width", "crops"),
    [
        (7, 9, SceneCrops((5, 6))),
        (7, 9, SceneCrops((5, 12), flip=True)),
        (7, 9, SceneCrops((6, 6), 0.5, 2.0, flip=True)),
        (12, 5, SceneCrops(None, 0.5, 2.0)),
        (8, 8, SceneCrops((20, 20), 0.3, 0.6)),
        (6, 7, SceneCrops((16, 9), 3.0, 3.0)),
    ],
)
def test_every_pixel_is_the_references(height, width, crops):
    pictures, masks = scenes(12, height, width)
    drawn = words(12)
    seen, labels = crops(pictures, masks, drawn)
    assert (seen.dtype, labels.dtype) == (torch.uint8, torch.uint8)
    for index, word in enumerate(drawn.tolist()):
        slow, wanted = slow_window(crops, pictures[index].numpy(), masks[index].numpy(), word)
        assert np.array_equal(labels[index].numpy(), wanted)
        assert np.abs(seen[index].numpy() - slow).max() < 0.5 + 1e-3


@pytest.mark.parametrize("scales", [(1.0, 1.0), (0.5, 2.0), (2.0, 2.0)])
@pytest.mark.parametrize("size", [None, (24, 40), (90, 20)])
def test_picture_and_mask_are_cut_by_the_same_window(scales, size):
    """Red is the row, green the column, and so is the mask: in blocks, that scaling keeps."""
    rows, columns = torch.meshgrid(torch.arange(50), torch.arange(60), indexing="ij")
    picture = torch.stack([rows * 4, columns * 4]).to(torch.uint8)
    mask = (rows // 10 * 6 + columns // 10 + 1).to(torch.uint8)
    number = 40
    seen, labels = SceneCrops(size, *scales, flip=True)(
        picture.expand(number, -1, -1, -1), mask.expand(number, -1, -1), words(number)
    )
    row, column = seen[:, 0].to(torch.float32) / 4, seen[:, 1].to(torch.float32) / 4
    inside = labels != IGNORED
    assert inside.any()
    assert not seen.permute(0, 2, 3, 1)[~inside].any()
    block = labels[inside].to(torch.float32) - 1
    near = 0.5 + 1 / 8  # half a pixel to the label's square, an eighth lost in rounding to bytes
    for value, low in ((row[inside], block // 6 * 10), (column[inside], block % 6 * 10)):
        assert bool((value >= low - near).all())
        assert bool((value <= low + 9 + near).all())


def test_a_doubled_scene_is_torchs_own():
    pictures, masks = scenes(3, 8, 10)
    seen, labels = SceneCrops((16, 20), 2.0, 2.0)(pictures, masks, words(3))
    wanted = torch.nn.functional.interpolate(
        pictures.double(), (16, 20), mode="bilinear", align_corners=False
    )
    assert float((seen.double() - wanted).abs().max()) < 0.5 + 1e-3
    assert torch.equal(labels, masks.repeat_interleave(2, dim=1).repeat_interleave(2, dim=2))


def test_by_default_a_scene_stays_as_it_is():
    pictures, masks = scenes(5, 6, 7)
    seen, labels = SceneCrops()(pictures, masks, words(5))
    assert torch.equal(seen, pictures)
    assert torch.equal(labels, masks)


def test_half_are_mirrored_and_windows_lie_everywhere():
    columns = torch.arange(12, dtype=torch.uint8).expand(400, 1, 1, 12)
    seen, _ = SceneCrops((1, 4), flip=True)(columns, columns[:, 0], words(400))
    firsts, lasts = seen[:, 0, 0, 0].int(), seen[:, 0, 0, 3].int()
    assert 0.4 < float((lasts < firsts).float().mean()) < 0.6
    counts = torch.bincount(torch.minimum(firsts, lasts), minlength=9)
    assert len(counts) == 9
    assert int(counts.min()) > 20


def test_the_ignored_stay_ignored_and_one_word_is_one_window():
    pictures, masks = scenes(2, 9, 9)
    masks[:, 4] = IGNORED
    crops = SceneCrops((9, 9), 0.5, 2.0, flip=True)
    drawn = words(2)
    both = crops(pictures, masks, drawn)
    alone = crops(pictures[1:], masks[1:], drawn[1:])
    assert all(torch.equal(one[1:], other) for one, other in zip(both, alone, strict=True))
    assert bool((both[1] == IGNORED).any())


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"size": (0, 5)}, r"size: \(0, 5\)"),
        ({"least_scale": 0.0}, "least_scale: 0.0"),
        ({"least_scale": 2.0, "most_scale": 1.0}, "least_scale <= most_scale"),
        ({"most_scale": float("inf")}, "most_scale of inf"),
        ({"least_scale": float("nan")}, "least_scale: nan"),
    ],
)
def test_windows_that_are_none_are_refused(changes, told):
    with pytest.raises(TrainingError, match=told):
        SceneCrops(**changes)


@pytest.mark.parametrize(
    ("pictures", "masks"),
    [
        (torch.zeros(2, 3, 4, 4), torch.zeros(2, 4, 4, dtype=torch.uint8)),
        (torch.zeros(2, 3, 4, 4, dtype=torch.uint8), torch.zeros(2, dtype=torch.uint8)),
        (torch.zeros(2, 3, 4, 4, dtype=torch.uint8), torch.zeros(2, 4, 4, dtype=torch.int64)),
        (torch.zeros(2, 3, 4, 4, dtype=torch.uint8), torch.zeros(2, 4, 5, dtype=torch.uint8)),
    ],
)
def test_what_is_no_scene_is_refused(pictures, masks):
    with pytest.raises(TrainingError, match="give uint8 pictures"):
        check_scenes(pictures, masks)
