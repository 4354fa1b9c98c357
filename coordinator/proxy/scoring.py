"""What takes long: checking gradients and scoring models with the method's proxy side.

torch is imported here and nowhere else in the proxy, when the first of it is to be done.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from fleetledger.coordinator.errors import ProxyError
from fleetledger.coordinator.proxy.inputs import Checked, OrderFailed
from fleetledger.coordinator.proxy.inputs import ScoringFinished as ScoredInput
from fleetledger.coordinator.proxy.records import Name, OrderScored, ScoredOrder
from fleetledger.learning.errors import LearningError
from fleetledger.methods.errors import ContributionError
from fleetledger.methods.network_weights import decode_weights
from fleetledger.schemas.contributions import PartKey
from fleetledger.schemas.count_words import count_of
from fleetledger.schemas.errors import FleetledgerError
from fleetledger.schemas.proxy import ScoringOrder

if TYPE_CHECKING:
    from fleetledger.methods.lga.assignment import LgaAssignment

_METHOD = "lga"
"""The one method with a proxy."""


@dataclass(frozen=True)
class Fresh:
    """Gradients that no model was scored by yet."""

    name: Name
    data: bytes


def check(order: ScoringOrder, fresh: Fresh) -> Checked | OrderFailed:
    """Say whether gradients are such as the order's method makes."""
    try:
        assignment = _assignment(order)
    except (FleetledgerError, LearningError) as error:
        return OrderFailed(order.action, str(error))
    from fleetledger.methods.lga.proxy import ProxyState, receive  # noqa: PLC0415 - needs torch

    try:
        receive(assignment.proxy_rules, ProxyState(), fresh.name.key.stage, fresh.data)
    except ContributionError as error:
        return Checked(fresh.name, str(error))
    return Checked(fresh.name, "")


def score(
    order: ScoringOrder,
    state: bytes | None,
    fresh: Sequence[Fresh],
    weights: bytes,
    device: str = "cpu",
) -> ScoredInput | OrderFailed:
    """Score `weights`, the bytes that the order names, on `device`, as the settings name it.

    The outcome depends on nothing but the arguments, save for the seconds in it.
    """
    began = time.monotonic()
    try:
        from fleetledger.learning.training.devices import found_device  # noqa: PLC0415 - needs torch

        given = _Given(order, state, fresh, weights, found_device(device))
        return ScoredInput(_scored(given, began))
    except (FleetledgerError, LearningError) as error:
        return OrderFailed(order.action, str(error))


@dataclass(frozen=True, eq=False)
class _Given:
    """What a score is made of."""

    order: ScoringOrder
    state: bytes | None
    fresh: Sequence[Fresh]
    weights: bytes
    device: str


def _scored(given: _Given, began: float) -> OrderScored:
    order, fresh, weights = given.order, given.fresh, given.weights
    assignment = _assignment(order)
    from fleetledger.learning.networks.pictures import Pictures  # noqa: PLC0415 - needs torch
    from fleetledger.methods.lga import proxy  # noqa: PLC0415 - needs torch

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
    rules = replace(assignment.proxy_rules, device=given.device)
    now = proxy.read_state(assignment.encoding, given.state)
    for item in fresh:
        now = proxy.receive(rules, now, item.name.key.stage, item.data)
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
            answer=proxy.answer(order.action, after, outcome, time.monotonic() - began),
            key=PartKey(stage=order.stage, part=order.round),
            lineage=order.lineage,
            weights=order.weights.digest,
            task=after.slots.task,
        ),
        after.write(),
        tuple(item.name for item in fresh),
    )


def _assignment(order: ScoringOrder) -> LgaAssignment:
    """Return what the fleet was told of the method; raise `ProxyError` or `MethodError`."""
    if order.method != _METHOD:
        raise ProxyError(
            f"method: {order.method!r} has no proxy, as far as this program knows; update it, or "
            f"let the fleet learn with {_METHOD!r}"
        )
    from fleetledger.methods.lga.assignment import LgaAssignment  # noqa: PLC0415 - heavy

    return LgaAssignment.from_values(order.settings)
