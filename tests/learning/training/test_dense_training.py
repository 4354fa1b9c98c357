"""Dense networks trained on scenes: windows, parts, precision, and full passes in chunks."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from fleetledger.learning.errors import TrainingError
from fleetledger.learning.losses.segmentation import presets
from fleetledger.learning.losses.segmentation.composition import DenseLoss
from fleetledger.learning.networks.conversion import to_tensors
from fleetledger.learning.networks.inference import Inference
from fleetledger.learning.networks.pictures import Pictures
from fleetledger.learning.networks.segmentation.registry import build_segmentation
from fleetledger.learning.networks.segmentation.torch_layers import DensePass
from fleetledger.learning.networks.torch_layers import Mode
from fleetledger.learning.training.chance import Chance
from fleetledger.learning.training.engine import train
from fleetledger.learning.training.loop import train_alone
from fleetledger.learning.training.scenes import SceneCrops
from fleetledger.learning.training.settings import TrainingEngineSettings
from fleetledger.learning.training.work import Batching, Data, Extras, Sgd, Work, shortened

pytestmark = pytest.mark.torch

SIDE = 32
SETTINGS = TrainingEngineSettings()
PICTURES = Pictures((0.5,) * 3, (0.25,) * 3)
NETWORK = build_segmentation("small_dense", (3, SIDE, SIDE))
PASS = DensePass(NETWORK)
LOSS = DenseLoss(PASS, presets.finetuning())


def scenes(number):
    """Return pictures with a bright red square of class 1 and a blue bar of class 2 each."""
    random = np.random.default_rng(0)
    pictures = random.integers(40, 90, (number, 3, SIDE, SIDE), np.uint8)
    masks = np.zeros((number, SIDE, SIDE), np.uint8)
    for index, (picture, mask) in enumerate(zip(pictures, masks, strict=True)):
        top = 2 + 3 * index % 10
        picture[0, top : top + 12, 3:15], mask[top : top + 12, 3:15] = 230, 1
        picture[2, 4:28, 20:28], mask[4:28, 20:28] = 230, 2
    return Data(torch.from_numpy(pictures), torch.from_numpy(masks))


def make_work(number=6, epochs=2, **changes):
    parameters, buffers = to_tensors(NETWORK.initial(0, ["square", "bar"]))
    fields = {
        "loss": LOSS,
        "optimiser": Sgd((0.05,) * epochs, momentum=0.9),
        "batching": Batching(4),
        "chance": Chance(3, "site", stage=1, round=2),
        "pictures": PICTURES,
        "scenes": SceneCrops((24, 24), 0.5, 2.0, flip=True),
    } | changes
    return Work(parameters, buffers, scenes(number), **fields)


def state(trained):
    return {**trained.parameters, **trained.buffers}


def same(one, other):
    return all(torch.equal(value, state(other)[name]) for name, value in state(one).items())


def labels(model, data):
    found = PASS(*model, PICTURES.normalise(data.inputs), Mode())[0]
    return found.logits.argmax(dim=1)


def test_a_network_learns_the_masks_of_two_scenes():
    crops = SceneCrops(flip=True)
    work = make_work(2, epochs=80, batching=Batching(2), scenes=crops)
    trained = train_alone(work, SETTINGS)
    found, masks = labels((trained.parameters, trained.buffers), work.data), work.data.targets
    for value in (0, 1, 2):
        both = ((found == value) & (masks == value)).sum()
        either = ((found == value) | (masks == value)).sum()
        assert float(both / either) > 0.9
    assert trained.losses[-1] < 0.2 * trained.losses[0]


def test_the_loss_sees_windows_of_picture_and_mask_from_the_place_that_chance_gives():
    seen = []

    def loss(parameters, buffers, frozen, extras, batch):
        seen.append((batch.inputs, batch.targets))
        return LOSS(parameters, buffers, frozen, extras, batch)

    work = make_work(epochs=1, loss=loss)
    train_alone(work, SETTINGS)
    inputs, targets = (torch.cat(parts) for parts in zip(*seen, strict=True))
    assert inputs.shape == (6, 3, 24, 24)
    assert (targets.shape, targets.dtype) == ((6, 24, 24), torch.uint8)
    bright = inputs.argmax(dim=1)
    assert float((bright[targets == 2] == 2).float().mean()) > 0.9
    black = inputs == PICTURES.normalise(torch.zeros(1, 3, 1, 1))
    assert bool(black.all(dim=1)[targets == 255].all())
    assert bool((targets == 255).any())


@pytest.mark.parametrize("parts", [2, 3])
def test_parts_cut_the_windows_of_the_whole_batch(parts):
    work = make_work(7, norms_frozen=True, scenes=SceneCrops((24, 24), flip=True))
    whole = train_alone(work, SETTINGS)
    split = train_alone(replace(work, batching=Batching(4, parts=parts)), SETTINGS)
    for name, value in whole.parameters.items():
        assert torch.allclose(split.parameters[name], value, rtol=1e-4, atol=1e-5)
    assert split.losses == pytest.approx(whole.losses, rel=1e-4)


def test_parts_of_whole_scenes_are_the_batch_in_float64():
    work = make_work(7, norms_frozen=True, scenes=None, pictures=None)
    model = {name: value.double() for name, value in work.parameters.items()}
    buffers = {name: value.double() for name, value in work.buffers.items()}
    data = replace(work.data, inputs=PICTURES.normalise(work.data.inputs).double())
    work = replace(work, parameters=model, buffers=buffers, data=data)
    whole, split = (
        train_alone(replace(work, batching=Batching(4, parts=parts)), SETTINGS) for parts in (1, 2)
    )
    for name, value in whole.parameters.items():
        assert float((split.parameters[name] - value).abs().max()) < 1e-12


def test_one_scene_trains_with_frozen_norms_alone():
    work = make_work(1, epochs=1, batching=Batching(4, 1))
    with pytest.raises(TrainingError, match="batch of one"):
        train_alone(work, SETTINGS)
    trained = train_alone(replace(work, norms_frozen=True), SETTINGS)
    assert trained.steps == 1
    assert all(torch.equal(trained.buffers[name], value) for name, value in work.buffers.items())


def test_the_same_agent_draws_the_same_windows_and_another_others():
    work = make_work()
    first, again = (train_alone(work, SETTINGS) for _ in range(2))
    other = train_alone(replace(work, chance=Chance(3, "other", 1, 2)), SETTINGS)
    assert same(first, again)
    assert not same(first, other)


def test_bfloat16_stays_finite_with_a_loss_in_float32():
    kinds = []

    def loss(parameters, buffers, frozen, extras, batch):
        value, changed = LOSS(parameters, buffers, frozen, extras, batch)
        kinds.append(value.dtype)
        return value, changed

    work = make_work(epochs=6, loss=loss)
    full, half = (
        train_alone(work, TrainingEngineSettings(autocast=flag)) for flag in (False, True)
    )
    assert {*kinds} == {torch.float32}
    assert {value.dtype for value in state(half).values()} == {torch.float32}
    assert all(bool(value.isfinite().all()) for value in state(half).values())
    assert half.losses[-1] < half.losses[0]
    assert half.losses[-1] == pytest.approx(full.losses[-1], rel=0.2)
    assert not same(half, full)


def test_stacks_refuse_scenes_and_auto_trains_them_one_by_one():
    def loss(parameters, buffers, frozen, extras, batch):
        return LOSS(parameters, buffers, frozen, extras, batch)

    loss.stackable = True
    works = [make_work(epochs=1, loss=loss), make_work(epochs=1, loss=loss)]
    with pytest.raises(TrainingError, match=r"scenes are cut for one agent.*choose loop or auto"):
        train(works, TrainingEngineSettings(engine="stack"))
    chosen, alone = (train(works, TrainingEngineSettings(engine=name)) for name in ("auto", "loop"))
    assert all(same(one, other) for one, other in zip(chosen, alone, strict=True))


def test_a_full_pass_goes_over_whole_scenes_no_more_than_a_batch_at_a_time():
    sizes = []

    def prepare(work, parameters, buffers, epoch, infer):
        def use(batch):
            sizes.append(tuple(batch.shape))
            return PASS(parameters, buffers, batch, Mode())[0].logits

        passed = torch.cat(list(infer.over(use, work.data.inputs)))
        assert not passed.requires_grad
        wanted, _ = PASS(parameters, buffers, PICTURES.normalise(work.data.inputs), Mode())
        assert torch.allclose(passed, wanted.logits, atol=1e-5)
        return Extras()

    train_alone(make_work(7, epochs=1, prepare=prepare), SETTINGS)
    assert sizes == [(4, 3, SIDE, SIDE), (3, 3, SIDE, SIDE)]
    sizes.clear()
    train_alone(make_work(7, epochs=1, prepare=prepare), TrainingEngineSettings(inference_batch=3))
    assert [size[0] for size in sizes] == [3, 3, 1]


@pytest.mark.parametrize(("autocast", "kind"), [(False, torch.float32), (True, torch.bfloat16)])
def test_a_full_pass_computes_as_precisely_as_it_is_told(autocast, kind):
    weight = torch.ones(4, 3, 1, 1)
    infer = Inference(2, PICTURES, autocast)
    (found,) = infer.over(lambda batch: torch.nn.functional.conv2d(batch, weight), scenes(2).inputs)
    assert found.dtype == kind


def test_measuring_by_a_few_batches_keeps_the_scenes_apart():
    short = shortened(make_work(7, batching=Batching(2)), batches=2)
    assert short.data.targets.shape == (4, SIDE, SIDE)
    assert train_alone(short, SETTINGS).steps == 2


def test_scenes_without_masks_or_without_their_normalisation_are_refused():
    work = make_work()
    with pytest.raises(TrainingError, match=r"scenes: inputs torch.uint8"):
        replace(work, data=Data(work.data.inputs, torch.zeros(6)))
    with pytest.raises(TrainingError, match="pictures: missing"):
        replace(work, pictures=None)
