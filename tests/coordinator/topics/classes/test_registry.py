"""A class gets its index once; renamed and merged names stay usable as aliases."""

from __future__ import annotations

import pytest

from fleetledger.coordinator.errors import UnknownClassError
from fleetledger.coordinator.topics.classes.commands import MergeClasses, RenameClass
from fleetledger.coordinator.topics.classes.state import ClassRegistry
from fleetledger.coordinator.topics.stages.commands import OpenStage
from fleetledger.schemas.values import ClassName
from tests.coordinator.core.harness import Bench, contribution, names

CAT, CAPITAL, DOG, EEL = names("cat", "Cat", "dog", "eel")


def registry() -> ClassRegistry:
    made = ClassRegistry()
    for index, name in enumerate((CAT, CAPITAL, DOG)):
        made.name(name, index)
    return made


def test_a_renamed_class_keeps_its_index_and_its_old_name_still_works() -> None:
    classes = registry()
    classes.rename(DOG, EEL)
    assert classes.indices[EEL] == 2
    assert classes.resolve(DOG) == EEL
    assert classes.names == (CAT, CAPITAL, EEL)


def test_a_class_can_be_renamed_back() -> None:
    classes = registry()
    classes.rename(DOG, EEL)
    classes.rename(EEL, DOG)
    assert classes.resolve(EEL) == DOG
    assert classes.resolve(DOG) == DOG


def test_a_merged_class_loses_its_row_and_its_index_is_not_given_again() -> None:
    classes = registry()
    classes.merge(CAPITAL, CAT)
    assert classes.names == (CAT, DOG)
    assert classes.resolve(CAPITAL) == CAT
    assert classes.next_index == 3
    assert classes.accepted_names == (CAPITAL, CAT, DOG)


def test_aliases_of_aliases_are_followed() -> None:
    classes = registry()
    classes.merge(CAPITAL, CAT)
    classes.rename(CAT, EEL)
    assert classes.resolve(CAPITAL) == EEL


def test_a_strange_name_is_named_in_the_error() -> None:
    with pytest.raises(UnknownClassError, match="'zebra' is not registered"):
        registry().resolve(ClassName("zebra"))


def test_commands_refuse_what_would_make_two_classes_of_one_name() -> None:
    bench = Bench()
    bench.begin("dev-1", classes=("cat", "Cat", "dog"))
    assert "class merge" in bench.command(RenameClass(old=CAT, new=DOG)).text
    assert bench.command(MergeClasses(source=CAPITAL, target=CAT)).done
    assert "mean 'cat' already" in bench.command(MergeClasses(source=CAPITAL, target=CAT)).text
    assert not bench.command(RenameClass(old=DOG, new=CAPITAL)).done
    assert "Cat" in bench.command(OpenStage(class_names=names("Cat"))).text
    assert not bench.command(RenameClass(old=EEL, new=DOG)).done


def test_devices_may_go_on_contributing_under_the_old_name() -> None:
    bench = Bench()
    bench.begin("dev-1", classes=("cat", "dog"))
    bench.command(RenameClass(old=CAT, new=EEL))
    answer = bench.give("dev-1", contribution("a", samples={"cat": 1})).answer
    assert answer.answer == "accepted"


def test_a_class_is_given_no_name_that_looks_like_another_one() -> None:
    bench = Bench()
    bench.begin("dev-1", classes=("cop", "dog"))
    answer = bench.command(RenameClass(old=DOG, new=ClassName("\u0441\u043e\u0440")))
    assert not answer.done
    assert "looks like 'cop'" in answer.text
    assert bench.command(RenameClass(old=DOG, new=EEL)).done
