"""Slots: switching and going back, whole or not at all, wherever the power goes."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from fleetledger.device_agent.errors import ModelError
from fleetledger.device_agent.models.slots import ModelSlots, Slot
from tests.device_agent import making


class PowerCutError(Exception):
    """The simulated power cut."""


def slot(version: int) -> Slot:
    return Slot(
        version=version,
        manifest=making.digest(f"manifest {version}"),
        files=(making.digest("frozen"), making.digest(f"head {version}")),
    )


@contextmanager
def power_cut_before(step: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Cut the power before the `step`-th thing that changes the disk; the list names all so far."""
    done: list[str] = []

    def cutting(name: str, function):
        def wrapper(*arguments, **options):
            if len(done) == step:
                raise PowerCutError(name)
            done.append(name)
            return function(*arguments, **options)

        return wrapper

    with monkeypatch.context() as patch:
        for name in ("replace", "symlink_to", "unlink"):
            patch.setattr(Path, name, cutting(name, getattr(Path, name)))
        patch.setattr(os, "fsync", cutting("fsync", os.fsync))
        yield done


def test_a_fresh_folder_has_no_model(tmp_path: Path) -> None:
    slots = ModelSlots(tmp_path / "slots")
    assert (slots.active(), slots.other()) == (None, None)
    assert slots.digests() == frozenset()


def test_the_former_model_stays_in_the_other_slot(tmp_path: Path) -> None:
    slots = ModelSlots(tmp_path)
    slots.install(slot(1))
    slots.install(slot(2))
    assert (slots.active(), slots.other()) == (slot(2), slot(1))
    assert slots.digests() == {
        making.digest(name) for name in ("manifest 1", "manifest 2", "frozen", "head 1", "head 2")
    }
    slots.install(slot(3))
    assert (slots.active(), slots.other()) == (slot(3), slot(2))


def test_installing_the_active_model_changes_nothing(tmp_path: Path) -> None:
    slots = ModelSlots(tmp_path)
    slots.install(slot(1))
    slots.install(slot(2))
    slots.install(slot(2))
    assert (slots.active(), slots.other()) == (slot(2), slot(1))


def test_installing_the_former_model_only_moves_the_link(tmp_path: Path) -> None:
    slots = ModelSlots(tmp_path)
    slots.install(slot(1))
    slots.install(slot(2))
    slots.install(slot(1))
    assert (slots.active(), slots.other()) == (slot(1), slot(2))


def test_going_back_forgets_the_failed_model(tmp_path: Path) -> None:
    slots = ModelSlots(tmp_path)
    slots.install(slot(1))
    slots.install(slot(2))
    assert slots.go_back() == slot(1)
    assert (slots.active(), slots.other()) == (slot(1), None)
    assert slots.go_back() is None
    assert slots.active() is None


def test_a_slot_that_cannot_be_read_counts_as_empty(tmp_path: Path) -> None:
    slots = ModelSlots(tmp_path)
    slots.install(slot(1))
    slots.install(slot(2))
    (tmp_path / "active").resolve().write_text("{")
    assert slots.active() is None
    assert slots.go_back() == slot(1)


@pytest.mark.parametrize("step", range(12))
def test_a_power_cut_while_switching_leaves_the_old_or_the_new_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    slots = ModelSlots(tmp_path)
    slots.install(slot(1))
    slots.install(slot(2))
    with power_cut_before(step, monkeypatch) as done:
        try:
            slots.install(slot(3))
            finished = True
        except PowerCutError:
            finished = False
    after = ModelSlots(tmp_path)
    assert after.active() in (slot(2), slot(3))
    if finished:
        assert after.active() == slot(3)
        assert len(done) <= step, "the power is cut at every step"
    after.install(slot(3))
    assert (after.active(), after.other()) == (slot(3), slot(2))


@pytest.mark.parametrize("step", range(8))
def test_a_power_cut_while_going_back_leaves_the_old_or_the_new_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    slots = ModelSlots(tmp_path)
    slots.install(slot(1))
    slots.install(slot(2))
    with power_cut_before(step, monkeypatch), suppress(PowerCutError):
        slots.go_back()
    after = ModelSlots(tmp_path)
    assert after.active() in (slot(1), slot(2))
    if after.active() == slot(2):
        assert after.go_back() == slot(1)
    assert after.active() == slot(1)


def test_a_full_disk_while_switching_is_told_and_leaves_the_former_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slots = ModelSlots(tmp_path)
    slots.install(slot(1))

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ModelError, match="No space left on device; free some space"):
        slots.install(slot(2))
    monkeypatch.undo()
    assert slots.active() == slot(1)


def test_a_candidate_is_kept_beside_both_and_its_files_with_it(tmp_path: Path) -> None:
    slots = ModelSlots(tmp_path)
    slots.install(slot(1))
    slots.install(slot(2))
    slots.keep_candidate(slot(3))
    assert (slots.active(), slots.other(), slots.candidate()) == (slot(2), slot(1), slot(3))
    assert {making.digest("manifest 3"), making.digest("head 3")} <= slots.digests()
    assert slots.go_back() == slot(1)
    assert ModelSlots(tmp_path).candidate() == slot(3)


def test_switching_empties_the_third_slot(tmp_path: Path) -> None:
    slots = ModelSlots(tmp_path)
    slots.install(slot(1))
    slots.install(slot(2))
    slots.keep_candidate(slot(3))
    slots.install(slot(3))
    assert (slots.active(), slots.other(), slots.candidate()) == (slot(3), slot(2), None)
    slots.keep_candidate(slot(4))
    slots.install(slot(3))
    assert slots.candidate() is None


@pytest.mark.parametrize("step", range(10))
def test_a_power_cut_around_a_candidate_leaves_both_slots_as_they_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    slots = ModelSlots(tmp_path)
    slots.install(slot(1))
    slots.install(slot(2))
    with power_cut_before(step, monkeypatch), suppress(PowerCutError):
        slots.keep_candidate(slot(3))
        slots.keep_candidate(slot(4))
        slots.forget_candidate()
    after = ModelSlots(tmp_path)
    assert (after.active(), after.other()) == (slot(2), slot(1))
    assert after.candidate() in (None, slot(3), slot(4))
    after.keep_candidate(slot(5))
    assert after.candidate() == slot(5)


@pytest.mark.parametrize("step", range(14))
def test_a_power_cut_while_switching_to_a_candidate_keeps_the_way_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    slots = ModelSlots(tmp_path)
    slots.install(slot(1))
    slots.install(slot(2))
    slots.keep_candidate(slot(3))
    with power_cut_before(step, monkeypatch), suppress(PowerCutError):
        slots.install(slot(3))
    after = ModelSlots(tmp_path)
    if after.active() == slot(2):
        assert after.candidate() == slot(3)
        after.install(slot(3))
    assert (after.active(), after.other(), after.candidate()) == (slot(3), slot(2), None)
