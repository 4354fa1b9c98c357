"""Fields that do not fit together are refused with field, value and way out."""

from typing import Any

import pytest
from pydantic import ValidationError

from fleetledger.runtime.setting_faults import describe_faults
from fleetledger.simulator.scenario.model import Scenario

GROUPS = {"rule": "redrawn", "joining": 2}
ROOM = {"classes": 10, "count": 3, "first": 8}


def refusal(**sections: Any) -> str:
    with pytest.raises(ValidationError) as refused:
        Scenario.model_validate({"title": "mine", **sections})
    return describe_faults(refused.value, Scenario)


@pytest.mark.parametrize(
    ("sections", "told"),
    [
        ({"stages": {"lists": [["a"]], "count": 1}}, "stages.lists: given beside count;"),
        ({"stages": {"lists": [["a"], []]}}, "stages.lists: stage 2 has no class;"),
        ({"stages": {"lists": [["a"], ["b", "a"]]}}, "stages.lists: 'a' stands twice;"),
        ({"stages": {"count": 1, "first": 3}}, "stages.first: 3 beside one stage;"),
        ({"stages": {"count": 11, "classes": 10}}, "stages.count: 11 stages cannot share 10"),
        ({"stages": {**ROOM, "first": 9}}, "stages.first: 9 of 10 classes leaves too few"),
        ({"stages": {"order": "icarl"}}, "stages.order: 'icarl' with the data set 'digits';"),
        ({"devices": {"groups": {"joining": 3}}}, "devices.groups.joining: 3 with rule 'none';"),
        (
            {"devices": {"absences": [{"device": 6}]}},
            "devices.absences.0.device: 6 of 5 devices; give 1 to 5",
        ),
        (
            {"devices": {"absences": [{"device": 1, "joins": 3, "leaves": 3}]}},
            "devices.absences.0.leaves: 3 is not after its joining in stage 3;",
        ),
        (
            {"devices": {"absences": [{"device": 1, "joins": 6}]}},
            "devices.absences.0.joins: 6 is after the last stage; give at most 5",
        ),
        (
            {"devices": {"absences": [{"device": 1, "leaves": 6}]}},
            "devices.absences.0.leaves: 6 is after the last stage; give at most 5",
        ),
        (
            {"devices": {"absences": [{"device": 1}, {"device": 1}]}},
            "devices.absences: device 1 stands twice;",
        ),
        (
            {"devices": {"count": 1, "absences": [{"device": 1, "joins": 2}]}},
            "devices.absences: nobody is there in stage 1;",
        ),
        (
            {"devices": {"partition": {"rule": "owner"}}},
            "devices.partition.rule: 'owner' with the data set 'digits',",
        ),
        (
            {"rounds": {"participation": 0.05}},
            "rounds.participation: 0.05 of 5 devices is nobody; give at least 0.2",
        ),
        (
            {"devices": {"partition": {"seeds": [1, 2]}}},
            "devices.partition.seeds: 2 for 5 stages; give one for each",
        ),
        ({"engine": {"keys": True}}, "engine.keys: True beside engine.kind 'inprocess'; it"),
        ({"engine": {"broker": "amqtt"}}, "engine.broker: 'amqtt' beside engine.kind 'inprocess';"),
        (
            {"engine": {"worker_cpus": 2}},
            "engine.worker_cpus: 2.0 beside engine.kind 'inprocess'; it",
        ),
        (
            {"engine": {"kind": "ray", "worker_gpus": 0.5}},
            "engine.worker_gpus: 0.5 lets workers share a GPU",
        ),
        ({"evaluation": {"on_devices": True}}, "evaluation.on_devices: is for programs,"),
        (
            {
                "data": {"set": "digit-scenes"},
                "devices": {"partition": {"rule": "class-share"}},
                "method": {"name": "fbl"},
                "engine": {"kind": "mqtt"},
                "evaluation": {"on_devices": True},
            },
            "evaluation.on_devices: true with the data set 'digit-scenes',",
        ),
        ({"backbone": {"network": "file"}}, "backbone.file: missing;"),
        ({"backbone": {"network": "torchvision"}}, "backbone.name: missing;"),
    ],
)
def test_what_does_not_fit_together_is_refused(sections: dict[str, Any], told: str):
    assert refusal(**sections).startswith(told)


@pytest.mark.parametrize(
    "sections",
    [
        {"stages": ROOM},
        {"stages": {"lists": [["a"], ["b"]]}},
        {"stages": {"order": "icarl"}, "data": {"set": "cifar100"}},
        {"devices": {"groups": GROUPS, "absences": [{"device": 13, "joins": 5}]}},
        {"devices": {"absences": [{"device": 1, "joins": 2, "leaves": 3}]}},
        {"devices": {"partition": {"rule": "owner"}}, "data": {"set": "omniglot"}},
        {"rounds": {"participation": 0.2}},
    ],
)
def test_what_fits_together_is_taken(sections: dict[str, Any]):
    assert Scenario.model_validate({"title": "mine", **sections}).title == "mine"


@pytest.mark.parametrize(
    ("field", "value"), [("steps", "captured"), ("channels_last", True), ("tf32", False)]
)
def test_agents_that_train_by_themselves_are_not_told_how_this_process_would(
    field: str, value: object
) -> None:
    engine = {field: value, "kind": "mqtt"}
    assert f"engine.{field}: {value!r} beside engine.kind 'mqtt'" in refusal(engine=engine)
    assert Scenario.model_validate({"title": "mine", "engine": {field: value}})


def test_only_the_first_faults_are_told_and_the_rest_are_counted():
    text = refusal(a=1, b=2, c=3, d=4)
    assert text.endswith("; and 1 more")


def test_the_number_of_stages_is_that_of_the_lists_where_there_are_some():
    stages = {"lists": [["a"], ["b"]]}
    assert Scenario.model_validate({"title": "mine", "stages": stages}).stages.total == 2
    assert Scenario(title="mine").stages.total == 5
