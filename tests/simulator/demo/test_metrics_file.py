"""The content of `metrics.json`, from hand-made ledger entries."""

import json
from pathlib import Path

import pytest

from simulator.demo.metrics_file import RunFacts, metrics
from simulator.demo.results import read_result
from simulator.demo.settings import DemoSettings
from tests.simulator.demo.hand_made import HandMadeLedger


@pytest.fixture
def facts() -> RunFacts:
    ledger = HandMadeLedger()
    ledger.begin()
    ledger.learn(1, wrong=2)
    first = read_result(ledger.view, ledger.plan, 1, seconds=3.0)
    ledger.learn(2, wrong=6)
    return RunFacts(
        settings=DemoSettings(Path("runs/x"), agents=2, stages=2),
        plan=ledger.plan,
        results=[first, read_result(ledger.view, ledger.plan, 2, seconds=4.0)],
        pooled=[0.99, 0.95],
        ridge=1.0,
        broker={"kind": "mosquitto", "description": "a broker"},
        ledger={"path": "ledger.db", "entries": 40, "verified": True},
        resident_mib={"coordinator": 80.0},
        reports=[],
        problems=[],
        seconds=9.0,
    )


def test_it_survives_json_without_loss(facts: RunFacts):
    content = metrics(facts)
    assert json.loads(json.dumps(content, allow_nan=False)) == content


def test_accuracy_is_the_sum_of_right_answers_over_the_sum_of_questions(facts: RunFacts):
    last = metrics(facts)["stages"][1]
    correct = sum(answers["correct"] for answers in last["by_class"].values())
    total = sum(answers["total"] for answers in last["by_class"].values())
    assert total - correct == 12
    assert last["accuracy"] == correct / total
    assert last["difference_points"] == pytest.approx(100 * (correct / total - 0.95))


def test_the_final_part_repeats_the_last_stage_and_sums_the_bytes(facts: RunFacts):
    content = metrics(facts)
    final, stages = content["final"], content["stages"]
    for field in ("accuracy", "pooled_float64_accuracy", "difference_points", "aggregate"):
        assert final[field] == stages[-1][field]
    assert final["bytes_up"] == sum(stage["bytes_up"] for stage in stages)
    assert final["bytes_down"] == sum(d["bytes_down"] for d in content["devices"].values())


def test_the_matrix_of_tasks_has_a_row_per_stage_and_nothing_unknown(facts: RunFacts):
    content = metrics(facts)
    assert [len(row) for row in content["accuracy_by_task"]] == [1, 2]
    lost = content["accuracy_by_task"][0][0] - content["accuracy_by_task"][1][0]
    assert content["final"]["forgetting_points"] == pytest.approx(100 * lost)


def test_payloads_are_compared_with_dense_float32_statistics(facts: RunFacts):
    shares = [stage["payload_share_of_dense"] for stage in metrics(facts)["stages"]]
    assert shares == [1000 / 6_260_000, 2000 / 6_260_000]


def test_it_says_on_what_it_was_measured(facts: RunFacts):
    content = metrics(facts)
    assert content["machine"]["cores"] >= 1
    assert content["versions"]["numpy"][0].isdigit()
    assert content["settings"]["out"] == "runs/x"
