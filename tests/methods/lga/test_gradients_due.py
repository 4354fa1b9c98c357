"""The rule of which gradients a device owes the proxy, as one value."""

from __future__ import annotations

from fleetledger.methods.lga.gradients_due import GradientsDue
from tests.methods.lga.making import ANT, BEE, CAT, DOG

NOTHING = GradientsDue()


def test_nothing_is_due_without_a_transition():
    assert NOTHING.classes((ANT, BEE), (), newest=True) == ()


def test_with_a_transition_current_classes_are_due_once_and_sorted():
    entered = NOTHING.after_transition()
    due = entered.classes((BEE, ANT), (), newest=True)
    assert due == (ANT, BEE)
    assert entered.classes((BEE, ANT), (), newest=False) == due
    done = entered.after_training(due, due)
    assert done == GradientsDue(sent=(ANT, BEE))
    assert done.after_transition().classes((ANT, BEE, CAT), (), newest=True) == (CAT,)


def test_a_class_with_exemplars_is_of_an_earlier_task():
    assert NOTHING.after_transition().classes((ANT, CAT), (ANT,), newest=True) == (CAT,)


def test_what_was_withheld_stays_due_as_long_as_its_task_does():
    withheld = NOTHING.after_transition().after_training((CAT, DOG), ())
    assert withheld == GradientsDue(withheld=True)
    assert withheld.classes((DOG, CAT), (), newest=True) == (CAT, DOG)
    assert withheld.classes((DOG, CAT), (), newest=False) == ()
    assert withheld.after_training((CAT, DOG), (CAT, DOG)) == GradientsDue(sent=(CAT, DOG))


def test_merged_classes_went_once():
    assert GradientsDue(sent=(ANT, BEE)).renamed({BEE: ANT}).sent == (ANT,)
