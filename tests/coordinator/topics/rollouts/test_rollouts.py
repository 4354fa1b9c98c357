"""The state machine of rollouts: group by group, as long as nothing speaks against it."""

from __future__ import annotations

from tests.coordinator.topics.rollouts.rollout_bench import BAD, RolloutBench


def test_a_good_model_goes_to_one_device_then_half_then_all() -> None:
    bench = RolloutBench()
    devices = bench.fleet(10)
    rollout = bench.begin_rollout()
    assert len(bench.offered()) == 1
    assert bench.offered(1) == bench.offered()
    bench.all_answer(1)
    assert rollout.stage == "soaking"
    assert len(bench.offered()) == 1
    bench.wait(61)
    bench.settle()
    assert 1 < len(bench.offered()) < 10
    bench.all_answer(2)
    bench.wait(61)
    bench.settle()
    assert bench.offered() == devices
    bench.all_answer(3)
    bench.wait(61)
    bench.settle()
    assert rollout.stage == "finished"
    assert bench.core.state.models.stack == [1, 2]
    assert bench.kinds == [
        "rollout.planned",
        "rollout.started",
        *("rollout.group_opened", "rollout.measured") * 3,
        "rollout.finished",
    ]


def test_a_bad_model_goes_back_everywhere_and_never_leaves_what_was_open() -> None:
    bench = RolloutBench()
    devices = bench.fleet(10)
    rollout = bench.begin_rollout(groups=(4, 1.0))
    first = bench.offered(1)
    assert len(first) == 4
    for device in first:
        bench.answers(device, BAD)
        bench.settle()
    assert rollout.stage == "rolled_back"
    assert bench.kinds[-2:] == ["rollout.measured", "rollout.rolled_back"]
    assert bench.ran[2] == set(first)
    assert [told.version for told in bench.told.values()] == [1] * len(devices)
    assert bench.core.state.models.offers == []
