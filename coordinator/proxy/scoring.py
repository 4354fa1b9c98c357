"""What takes long: checking gradients and scoring models with the method's proxy side.

torch is imported here and nowhere else in the proxy, when the first of it is to be done.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from fleetledger.coordinator.errors import ProxyError
from fleetledger.coordinator.proxy.decision import Checked, Input, OrderFailed
from fleetledger.coordinator.proxy.records import Name, OrderScored, ScoredOrder
from fleetledger.learning.errors import LearningError
from fleetledger.methods.errors import ContributionError
from fleetledger.methods.registry import training_coordinator
from fleetledger.methods.training.network_weights import decode_weights
from fleetledger.runtime.count_words import count_of
from fleetledger.runtime.errors import FleetledgerError
from fleetledger.schemas.proxy import ScoringOrder
from fleetledger.schemas.values import Digest

if TYPE_CHECKING:
    from fleetledger.methods.lga.assignment import LgaAssignment

_METHOD = "lga"
"""The method of ours with a proxy."""


def carried_out(order: ScoringOrder, job: Callable[[], Input]) -> Input:
    """Return what a job of an order ends in."""
    try:
        return job()
    except (FleetledgerError, LearningError) as error:
        return OrderFailed(order.action, str(error))


def check(order: ScoringOrder, name: Name, data: bytes) -> Checked:
    """Say whether gradients are such as the order's method makes; raise what `score` raises."""
    rules = _assignment(order).proxy_rules
    from fleetledger.methods.lga.proxy import ProxyState, receive  # noqa: PLC0415 - needs torch

    try:
        receive(rules, ProxyState(), name.key.stage, data)
    except ContributionError as error:
        return Checked(name, str(error))
    return Checked(name, "")


def score(
    order: ScoringOrder,
    state: bytes | None,
    fresh: Mapping[Name, bytes],
    weights: bytes,
    device: str = "cpu",
) -> OrderScored:
    """Score `weights`, the bytes that the order names, on `device`, as the settings name it.

    `fresh` are gradients that no model was scored by yet. The outcome depends on nothing but the
    arguments, save for the seconds in it. Raises `FleetledgerError` or `LearningError` for an order
    that cannot be carried out.
    """
    began, assignment = time.monotonic(), _assignment(order)
    from fleetledger.learning.networks.pictures import Pictures  # noqa: PLC0415 - needs torch
    from fleetledger.learning.training.devices import found_device  # noqa: PLC0415 - needs torch
    from fleetledger.methods.lga import proxy  # noqa: PLC0415 - needs torch

    found = Digest.of(weights)
    if found != order.weights.digest:
        raise ProxyError(f"weights: promised {order.weights.digest.short}, {found.short} lie here")
    network, (arrays, rows) = assignment.network, decode_weights(weights, assignment.network)
    if len(rows) != len(order.class_names):
        raise ProxyError(
            f"class_names: {len(order.class_names)} in the order, and the head has "
            f"{count_of(len(rows), 'row')}"
        )
    if order.class_stages and len(order.class_stages) != len(order.class_names):
        raise ProxyError(
            f"class_stages: {len(order.class_stages)} in the order, for {len(order.class_names)} "
            "classes"
        )
    rules = replace(assignment.proxy_rules, device=found_device(device))
    now = proxy.read_state(assignment.encoding, state)
    for name, data in fresh.items():
        now = proxy.receive(rules, now, name.key.stage, data)
    model = proxy.Model(
        weights=order.weights.digest,
        round=order.round,
        round_of_stage=order.round_of_stage,
        network=network,
        arrays=dict(arrays),
        # A class may have been renamed since the file was written.
        class_names=order.class_names,
        pictures=Pictures(order.preprocessing.mean, order.preprocessing.deviation),
        class_stages=order.class_stages,
    )
    after, outcome = proxy.score(rules, now.renamed(order.aliases), model, order.seed)
    return OrderScored(
        ScoredOrder(
            order,
            proxy.answer(order.action, after, outcome, time.monotonic() - began),
            task=after.slots.task,
        ),
        after.write(),
        tuple(fresh),
    )


def _assignment(order: ScoringOrder) -> LgaAssignment:
    """Return what the fleet was told of the method; raise `ProxyError` or `MethodError`.

    `UnknownMethodError` for a method that is not installed here.
    """
    from fleetledger.methods.lga.assignment import LgaAssignment  # noqa: PLC0415 - heavy

    told = training_coordinator(order.method).read_assignment(order.settings)
    if not isinstance(told, LgaAssignment):
        raise ProxyError(
            f"method: {order.method!r} has no proxy; let the fleet learn with {_METHOD!r}, or with "
            "one that begins with it"
        )
    return told
