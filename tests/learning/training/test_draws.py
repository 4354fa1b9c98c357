"""What an epoch draws on the host is what each step would derive where it computes."""

from __future__ import annotations

import pytest
import torch

from benchmarks.speed.kernel_counts.accelerator import DEVICE, FakeAccelerator
from fleetledger.learning.training import draws
from fleetledger.learning.training.chance import Chance, StepChance, signed
from fleetledger.learning.training.draws import Draws

pytestmark = pytest.mark.torch

CHANCES = [Chance(3, f"agent-{agent}", stage=1, round=2) for agent in range(3)]
SIZES = (11, 9, 4)
BATCH, STEPS, EPOCH = 4, 3, 5
KEYS = torch.tensor([signed(chance.key) for chance in CHANCES])


def drawn(device: str = "cpu", epochs: int = 1) -> Draws:
    return Draws(CHANCES, SIZES, BATCH, torch.device(device), True, True, epochs)


def test_keys_of_a_stack_are_those_of_its_agents() -> None:
    epoch = drawn().epoch(EPOCH, STEPS)
    for step, agents in enumerate((3, 3, 2)):
        known = epoch.step(step, agents)
        derived = StepChance.derived(KEYS[:agents], EPOCH, step)
        assert torch.equal(known.loss_words(7), derived.loss_words(7))
        values = torch.rand(agents, 4, 5)
        for layer in (0, 3):
            wanted = derived.dropout(values, 0.3, layer)
            assert torch.equal(known.dropout(values, 0.3, layer), wanted)


def test_parts_of_a_batch_have_the_keys_of_their_first_row() -> None:
    alone = Draws(CHANCES[:1], SIZES[:1], BATCH, torch.device("cpu"), stacked=False, shaken=False)
    epoch = alone.epoch(EPOCH, STEPS)
    derived = StepChance.derived(KEYS[0], EPOCH, 1, first=2)
    values = torch.rand(2, 5)
    assert torch.equal(epoch.step(1, 1, first=2).loss_words(4), derived.loss_words(4))
    wanted = derived.dropout(values, 0.5, 1)
    assert torch.equal(epoch.step(1, 1, first=2).dropout(values, 0.5, 1), wanted)


@pytest.mark.parametrize("words", [1, 9, 1 << 19])
def test_a_dropout_drawn_for_many_steps_keeps_what_each_step_would(words, monkeypatch) -> None:
    monkeypatch.setattr(draws, "_WORDS_AT_ONCE", words)
    epoch = drawn().epoch(EPOCH, STEPS)
    for step, (agents, rows) in enumerate([(3, 4), (3, 4), (2, 3)]):
        derived = StepChance.derived(KEYS[:agents], EPOCH, step)
        for layer, shape in ((0, (3,)), (1, (2, 5)), (0, (3,))):
            values = torch.rand(agents, rows, *shape)
            wanted = derived.dropout(values, 0.3, layer)
            assert torch.equal(epoch.step(step, agents).dropout(values, 0.3, layer), wanted)


def test_dropouts_of_later_steps_cost_a_kernel_each() -> None:
    with FakeAccelerator() as fake:
        epoch = drawn(DEVICE).epoch(EPOCH, STEPS)
        values = torch.ones(3, 4, 6, device=DEVICE)
        epoch.step(0, 3).dropout(values, 0.5, 1)
        before = fake.seen.kernels.total()
        epoch.step(1, 3).dropout(values, 0.5, 1)
        assert fake.seen.kernels.total() == before + 1


def test_each_sample_has_the_word_of_its_row_of_the_batch() -> None:
    epoch = drawn().epoch(EPOCH, STEPS)
    assert epoch.words is not None
    for agent, size in enumerate(SIZES):
        for step in range(-(-size // BATCH)):
            rows = min(BATCH, size - step * BATCH)
            found = epoch.words[agent, step * BATCH : step * BATCH + rows]
            derived = StepChance.derived(KEYS[agent], EPOCH, step)
            assert torch.equal(found, derived.picture_words(rows))


def test_orders_are_shuffles_of_each_agents_own_samples() -> None:
    order = drawn().epoch(EPOCH, STEPS).order
    first = 0
    for agent, (chance, size) in enumerate(zip(CHANCES, SIZES, strict=True)):
        wanted = torch.from_numpy(chance.shuffled(EPOCH, size)) + first
        assert torch.equal(order[agent, :size], wanted)
        assert (order[agent, size:] == first).all(), "padded by its first"
        first += size


def copies_of(made_once: Draws, fake: FakeAccelerator, epochs: int) -> list[int]:
    """Return the copies that each epoch costs."""
    copies = []
    for epoch in range(epochs):
        before = fake.seen.to_device.total()
        made = made_once.epoch(epoch, STEPS)
        for step in range(STEPS):
            made.step(step, 2).dropout(torch.ones(2, 4, 6, device=DEVICE), 0.5, 1)
            made.step(step, 2).loss_words(5)
        copies.append(fake.seen.to_device.total() - before)
    return copies


def test_epochs_of_a_training_are_one_copy_and_one_for_each_who_asks() -> None:
    with FakeAccelerator() as fake:
        assert copies_of(drawn(DEVICE, epochs=4), fake, 4) == [3, 0, 0, 0]
        assert copies_of(drawn(DEVICE), fake, 3) == [3, 1, 1], "of epochs that nobody announced"


def test_epochs_that_are_not_small_are_copied_as_many_as_are(monkeypatch) -> None:
    keys = 2 * len(SIZES) * STEPS  # of a dropout and of a loss, once they have asked
    each = 2 * len(SIZES) * SIZES[0] + keys
    monkeypatch.setattr(draws, "_NUMBERS_AHEAD", 2 * each)
    with FakeAccelerator() as fake:
        assert copies_of(drawn(DEVICE, epochs=7), fake, 7) == [3, 0, 1, 0, 1, 0, 1]


def test_epochs_that_are_drawn_ahead_are_those_that_are_drawn_one_by_one() -> None:
    with FakeAccelerator():
        ahead = drawn(DEVICE, epochs=3)
        for epoch in range(3):
            here, there = drawn().epoch(epoch, STEPS), ahead.epoch(epoch, STEPS)
            assert here.words is not None
            assert there.words is not None
            assert torch.equal(there.order.cpu(), here.order)
            assert torch.equal(there.words.cpu(), here.words)
            for asked in ((7, None), (8, 2)):
                assert torch.equal(there.of(asked).cpu(), here.of(asked))


def test_on_the_processor_an_epoch_is_drawn_when_it_comes(monkeypatch) -> None:
    made = drawn(epochs=3)
    shuffled: list[int] = []
    draw = Chance.shuffled

    def noted(self: Chance, epoch: int, size: int) -> object:
        shuffled.append(epoch)
        return draw(self, epoch, size)

    monkeypatch.setattr(Chance, "shuffled", noted)
    made.epoch(0, STEPS)
    assert set(shuffled) == {0}
