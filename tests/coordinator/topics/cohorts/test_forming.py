"""When devices are a cohort, and what stages wait for."""

from __future__ import annotations

import pytest

from fleetledger.coordinator.core.due_times import next_due
from fleetledger.coordinator.core.rules import PrivacyRules
from fleetledger.coordinator.topics.cohorts.views import cohort_sentences
from fleetledger.coordinator.topics.lineages.commands import ImportBackbone
from fleetledger.coordinator.topics.stages.commands import OpenStage
from fleetledger.schemas.assignments import Assignment
from fleetledger.schemas.contributions import Nothing
from fleetledger.schemas.keys import KeyName, SigningKey
from fleetledger.schemas.privacy import Masks, Privacy
from fleetledger.schemas.receipts import Refused
from fleetledger.schemas.values import DeviceId
from tests.coordinator.core.harness import BACKBONE, names, receipt, sent
from tests.coordinator.topics.cohorts.cohort_bench import PRIVACY, CohortBench


def joined(bench: CohortBench, count: int) -> None:
    bench.join(*list(bench.members)[:count])
    bench.wait(0)


def sizes(bench: CohortBench) -> list[int]:
    return [len(body.cohort.members) for body in bench.kinds("cohort.formed")]


@pytest.mark.parametrize(
    ("devices", "ready", "formed"),
    [
        (12, 3, []),  # others may come
        (12, 4, [4]),  # so many as a cohort has
        (8, 8, [4, 4]),
        (5, 4, []),  # the fifth would be left over
        (5, 5, [5]),
        (6, 6, [6]),  # two would be too few
        (7, 7, [4, 3]),
        (3, 3, [3]),  # nobody else can come
        (2, 2, []),  # and these are too few
    ],
)
def test_cohorts_are_of_so_many_that_nobody_is_left_over(
    devices: int, ready: int, formed: list[int]
) -> None:
    bench = CohortBench(devices)
    joined(bench, ready)
    bench.wait(0)
    assert sizes(bench) == formed


def test_after_a_while_as_many_as_are_ready_begin() -> None:
    bench = CohortBench(12)
    joined(bench, 3)
    due_ns = next_due(bench.rules, bench.core.state, bench.core.live, bench.now_ns)
    bench.wait(PRIVACY.wait_seconds - 1)
    assert not sizes(bench)
    bench.wait(1)
    assert sizes(bench) == [3]
    assert due_ns is not None
    assert abs(due_ns - bench.now_ns) < 10**9


def test_a_stage_closes_when_its_cohorts_are_summed() -> None:
    bench = CohortBench(6)
    joined(bench, 6)
    bench.give_words()
    bench.wait(0)
    bench.wait(60)
    assert not bench.kinds("stage.closed"), "the sum is not known"
    bench.reveal()
    bench.wait(0)
    bench.work()
    bench.wait(1)
    bench.wait(5)
    (closed,) = bench.kinds("stage.closed")
    assert (closed.answered, closed.expected) == (6, 6)
    assert not closed.without_samples


def test_a_stage_waits_for_nobody_who_is_too_few() -> None:
    bench = CohortBench(3)
    bench.join("dev-1", "dev-2")
    receipt(bench.message("dev-3", Nothing(stage=1)))
    bench.wait(60)
    (told,) = cohort_sentences(bench.core.state, 1)
    assert told == "2 devices wait for a cohort; 1 more is needed for one."
    bench.wait(1000)
    assert bench.kinds("stage.closed"), "its deadline closes it"


def test_status_says_what_a_cohort_waits_for() -> None:
    bench = CohortBench(6)
    joined(bench, 6)
    state = bench.core.state
    bench.give_words("dev-1")
    assert list(cohort_sentences(state, 1)) == [
        "Cohort 1: 1 of 6 members has given its words; it waits for dev-2, dev-3, dev-4, dev-5, "
        "dev-6."
    ]
    bench.give_words("dev-2", "dev-3", "dev-4", "dev-5")
    bench.wait(PRIVACY.answer_seconds)
    assert list(cohort_sentences(state, 1)) == [
        "Cohort 1: 0 of 5 members (without 1 silent one) have told what they had in common with "
        "the silent; it waits for dev-1, dev-2, dev-3, dev-4, dev-5."
    ]
    bench.reveal()
    bench.wait(0)
    bench.reveal("dev-1")
    (told,) = cohort_sentences(state, 1)
    assert told.endswith("5 are enough, and it waits for as long as that takes.")


def test_assignments_tell_how_devices_are_hidden_and_the_ledger_keeps_it() -> None:
    bench = CohortBench()
    (told,) = sent(bench.born("dev-1"), Assignment)
    assert isinstance(told, Assignment)
    assert told.privacy == Privacy(masks=Masks(least=3, most=4))
    (opened,) = bench.kinds("stage.opened")
    assert opened.privacy == told.privacy


def test_a_stage_of_a_method_without_integer_sums_is_not_opened_behind_masks() -> None:
    bench = CohortBench()
    compact = BACKBONE.model_copy(update={"settings": {"feature_width": 64, "settings": {}}})
    assert bench.command(ImportBackbone(backbone=compact)).done
    answer = bench.command(OpenStage(class_names=names("ant")))
    assert not answer.done
    assert "set [privacy] masks = false" in answer.text


def test_without_masks_nobody_joins() -> None:
    bench = CohortBench(privacy=PrivacyRules())
    (answer,) = bench.join("dev-1")
    assert isinstance(answer.answer, Refused)
    assert "not summed behind masks" in answer.answer.reason


def test_a_join_without_the_signature_of_an_enrolled_key_is_refused() -> None:
    bench = CohortBench()
    key = SigningKey.fresh(KeyName("a/device/dev-1")).verify_key
    bench.core.state.keys.by_device[DeviceId("dev-1")] = bench.core.state.keys.of("dev-1")  # type: ignore[arg-type]
    bench.core.state.keys.by_device[DeviceId("dev-1")].key = key
    (answer,) = bench.join("dev-1")
    assert isinstance(answer.answer, Refused)
    assert answer.answer.reason.startswith("signature: missing")
