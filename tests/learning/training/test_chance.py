"""Chance by position: torch draws the words that NumPy draws, alone and in a stack."""

import numpy as np
import pytest
import torch

from fleetledger.learning.numerics.counter_generator import random_words
from fleetledger.learning.training.chance import Chance, StepChance, signed, subkeys, word, words
from tests.learning.training.agents import slow_mask

pytestmark = pytest.mark.torch

KEYS = [0, 1, 2**63, 2**64 - 1, 1234567]
TENSOR = torch.tensor([signed(key) for key in KEYS])
CHANCES = [Chance(5, f"agent-{i}", stage=1, round=2, phase="local") for i in range(4)]


def moment(chances, epoch=3, batch=7):
    return StepChance.derived(
        torch.tensor([signed(chance.key) for chance in chances]), epoch, batch
    )


def test_torch_draws_the_words_of_numpy():
    drawn = words(TENSOR, 50).numpy().view(np.uint64)
    assert np.array_equal(drawn, [random_words(key, 0, 50) for key in KEYS])


def test_a_word_is_the_key_of_a_sequence():
    for position in (0, 1, 1000):
        wanted = [signed(word(key, position)) for key in KEYS]
        assert subkeys(TENSOR, position).tolist() == wanted


@pytest.mark.parametrize("change", ["seed", "agent", "stage", "round", "phase"])
def test_everything_that_names_a_training_changes_its_chance(change):
    one = Chance(1, "a", 1, 1, "x")
    other = Chance(**{**vars(one), change: "b" if change in ("agent", "phase") else 2})
    assert one.key != other.key


def test_a_shuffle_is_a_permutation_of_its_own_in_each_epoch():
    orders = [CHANCES[0].shuffled(epoch, 100) for epoch in range(3)]
    assert all(sorted(order) == list(range(100)) for order in orders)
    assert not np.array_equal(orders[0], orders[1])
    key = word(word(CHANCES[0].key, 0), 2)
    assert orders[2].tolist() == sorted(range(100), key=lambda i: int(random_words(key, i, 1)[0]))


def test_a_short_shuffle_of_no_samples_is_empty():
    assert CHANCES[0].shuffled(0, 0).tolist() == []


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_dropout_is_the_same_element_by_element_alone_and_in_a_stack(rate):
    values = torch.ones(4, 5, 3, dtype=torch.float64)
    together = moment(CHANCES).dropout(values, rate, 2)
    for agent, chance in enumerate(CHANCES):
        key = torch.tensor(signed(chance.key))
        alone = StepChance.derived(key, 3, 7).dropout(values[agent], rate, 2)
        assert torch.equal(together[agent], alone)
        assert torch.equal(alone, slow_mask(chance, (3, 7, 2), (5, 3), rate))


def test_dropout_of_fewer_rows_is_the_beginning_of_that_of_more():
    key = torch.tensor(signed(CHANCES[0].key))
    long, short = (StepChance.derived(key, 0, 0).dropout(torch.ones(n, 7), 0.5, 0) for n in (9, 4))
    assert torch.equal(long[:4], short)


@pytest.mark.parametrize("rate", [0.1, 0.25, 0.5])
def test_dropout_drops_its_share_and_keeps_the_expectation(rate):
    dropped = moment(CHANCES).dropout(torch.ones(4, 200, 500), rate, 0)
    assert float((dropped == 0).double().mean()) == pytest.approx(rate, abs=0.003)
    assert float(dropped.double().mean()) == pytest.approx(1, abs=0.005)


def test_layers_batches_epochs_and_agents_drop_other_elements():
    values = torch.ones(4, 10, 50)
    reference = moment(CHANCES).dropout(values, 0.5, 0)
    others = [
        moment(CHANCES).dropout(values, 0.5, 1),
        moment(CHANCES, batch=8).dropout(values, 0.5, 0),
        moment(CHANCES, epoch=4).dropout(values, 0.5, 0),
        moment(CHANCES[1:] + CHANCES[:1]).dropout(values, 0.5, 0),
    ]
    for other in others:
        assert float((other == reference).double().mean()) == pytest.approx(0.5, abs=0.05)


def test_losses_draw_words_of_their_own_alone_and_in_a_stack():
    together = moment(CHANCES).loss_words(6)
    for agent, chance in enumerate(CHANCES):
        key = word(word(word(chance.key, 3), 3), 7)
        assert together[agent].numpy().view(np.uint64).tolist() == random_words(key, 0, 6).tolist()


def test_a_part_of_a_batch_has_the_words_and_the_dropout_of_its_rows():
    key = torch.tensor(signed(CHANCES[0].key))
    whole, part = StepChance.derived(key, 3, 7), StepChance.derived(key, 3, 7, first=5)
    assert torch.equal(part.picture_words(4), whole.picture_words(9)[5:])
    for shape in ((), (7,), (3, 4)):
        dropped = whole.dropout(torch.ones(9, *shape), 0.5, 1)
        assert torch.equal(part.dropout(torch.ones(4, *shape), 0.5, 1), dropped[5:])


def test_a_loss_draws_other_words_for_each_part_of_a_batch():
    key = torch.tensor(signed(CHANCES[0].key))
    drawn = torch.cat(
        [StepChance.derived(key, 3, 7, first=first).loss_words(50) for first in (0, 2, 5)]
    )
    assert len(drawn.unique()) == 150


def test_pictures_have_a_word_each():
    together = moment(CHANCES).picture_words(6)
    key = word(word(word(CHANCES[1].key, 1), 3), 7)
    assert together[1].numpy().view(np.uint64).tolist() == random_words(key, 0, 6).tolist()
