"""Runs of five networks that nobody here wrote: `python five_networks.py NAME LIGHT DEVICES`.

The first folder gets a run of light agents, the second one of agents as programs over Mosquitto.
"""

import sys

import fleetledger as fl
from tests.learning.networks import outside

TRAINING = {"preset": "fedavg-exemplars", "batch": 16, "epochs": 8}
PICTURES = {
    "data": {"set": "digits", "per_class": 40, "test_per_class": 20},
    "stages": {"lists": [["0", "1", "2"], ["3", "4"]]},
}
WINDOWS = {
    "data": {"set": "sensors", "options": {"train": 40, "test": 20, "people": 4}},
    "stages": {"lists": [["climbing", "cycling", "jumping"], ["resting", "running"]]},
}
SCENARIOS = {
    "group_norm_cnn": PICTURES,
    "mobilenet_v3_small": {**PICTURES, "backbone": {"size": 32}},
    "vit": {**PICTURES, "backbone": {"size": 16}},
    "conv1d": WINDOWS,
    "lstm": WINDOWS,
}
SETTINGS = {
    "mobilenet_v3_small": {"epochs": 4, "network_options": {"momentum": 0.1}},
    "vit": {"rate": 0.01},
    "lstm": {"network_options": {"width": 16}},
}


@fl.network("group_norm_cnn")
def group_norm_cnn(shape):
    return outside.group_norm_cnn(shape)


@fl.network("mobilenet_v3_small")
def mobilenet_v3_small(shape, momentum=0.01):
    return outside.mobilenet_v3_small(shape, momentum)


@fl.network("vit")
def vit(shape):
    return outside.vit(shape)


@fl.network("conv1d")
def conv1d(shape):
    return outside.conv1d(shape)


@fl.network("lstm")
def lstm(shape, width=9):
    return outside.lstm_of_channels(shape, width)


def scenario_of(name: str) -> dict:
    settings = {**TRAINING, "network": name, **SETTINGS.get(name, {})}
    return {
        **SCENARIOS[name],
        "devices": {"count": 2},
        "rounds": {"per_stage": 4 if name == "mobilenet_v3_small" else 6},
        "method": {"name": "rounds", "settings": settings},
    }


def main(name: str, light: str, devices: str) -> None:
    scenario = scenario_of(name)
    # Small networks would train in stacks, whose last bits are not those of agents on their own.
    fl.simulate(scenario, output=light, engine={"training": "loop"}, progress=False)
    asked = {"evaluation": {"on_devices": True}}
    programs = {"kind": "mqtt", "broker": "mosquitto"}
    fl.simulate(scenario, output=devices, engine=programs, changes=asked, progress=False)


if __name__ == "__main__":
    main(*sys.argv[1:])
