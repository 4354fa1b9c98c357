"""The slots of old models: shifted by gradients, filled by scores."""

from fleetledger.methods.lga.slots import PAPER, RELEASED, SlotRules, Slots
from fleetledger.schemas.proxy import ScoredModel
from fleetledger.schemas.values import Digest


def model(number: int, score: float) -> ScoredModel:
    return ScoredModel(round=number, weights=Digest.of(b"%d" % number), score=score)


def weights(number: int) -> Digest:
    return model(number, 0.0).weights


def after(rules: SlotRules, *happenings: int | tuple[int, float, int]) -> Slots:
    """Return slots after arrivals (a task) and scores (number, score, round of the stage)."""
    slots = Slots()
    for happened in happenings:
        if isinstance(happened, int):
            slots = slots.arrived(happened, rules)
        else:
            number, score, round_of_stage = happened
            slots = slots.taken(model(number, score), round_of_stage, rules)
    return slots


def test_before_any_score_there_is_no_old_model() -> None:
    assert after(PAPER, 1) == Slots(task=1)


def test_the_best_of_a_task_is_its_model_and_of_equal_ones_the_later() -> None:
    slots = after(PAPER, 1, (1, 0.5, 1), (2, 0.9, 2), (3, 0.9, 3), (4, 0.2, 4))
    assert (slots.previous, slots.current) == (None, weights(3))
    assert [item.round for item in slots.scored] == [1, 2, 3, 4]


def test_the_first_gradients_of_the_next_task_shift_the_slots_once() -> None:
    slots = after(PAPER, 1, (1, 0.9, 1), 2, (2, 0.1, 1), 2, (3, 0.3, 2))
    assert (slots.previous, slots.current) == (weights(1), weights(3))
    assert [item.round for item in slots.scored] == [2, 3]


def test_gradients_of_an_earlier_task_that_come_late_change_nothing() -> None:
    slots = after(PAPER, 1, (1, 0.9, 1), 2, (2, 0.5, 1))
    assert slots.arrived(1, PAPER) == slots


def test_the_released_program_shifts_whenever_gradients_arrive() -> None:
    slots = after(RELEASED, 1, (1, 0.5, 7), 2, (2, 0.7, 7), 2)
    assert slots.previous == weights(2)


def test_the_released_program_compares_with_the_best_of_all_tasks() -> None:
    slots = after(RELEASED, 1, (1, 0.9, 7), 2, (2, 0.7, 7))
    assert slots.current == weights(1)


def test_the_first_rounds_of_a_task_do_not_count_in_the_released_program() -> None:
    slots = after(RELEASED, 1, (1, 0.9, 6), (2, 0.1, 7))
    assert slots.current == weights(2)
    assert [item.score for item in slots.scored] == [0.0, 0.1]


def test_without_the_best_model_the_newest_is_taken() -> None:
    slots = after(SlotRules(best=False), 1, (1, 0.9, 1), (2, 0.1, 2))
    assert slots.current == weights(2)
