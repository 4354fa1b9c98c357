"""A small fleet that learns to find digits in scenes."""

from __future__ import annotations

from typing import Any

from fleetledger.simulator.scenario.model import Scenario

SCENES = {"train": 24, "test": 6, "height": 24, "width": 24, "most": 3, "scales": [1]}
SETTINGS = {"network": "small_dense", "epochs": 1, "batch": 4, "frozen_norm": "none"}


def finding(**sections: Any) -> Scenario:
    """Three devices, then one more, two tasks of two digits, two rounds each."""
    content: dict[str, Any] = {
        "title": "a few scenes in rounds",
        "data": {"set": "digit-scenes", "scenes": SCENES},
        "stages": {"setting": "2-2", "classes": 4, "order": "as-is"},
        "devices": {
            "count": 3,
            "partition": {"rule": "class-share", "class_share": 1.0, "image_share": 0.6},
            "groups": {"rule": "redrawn", "new_share": 0.7, "joining": 1},
        },
        "rounds": {"per_stage": 2, "cohort": 2},
        "method": {"name": "fbl", "settings": SETTINGS},
    }
    for name, section in sections.items():
        content[name] = {**content.get(name, {}), **section}
    return Scenario.model_validate(content)
