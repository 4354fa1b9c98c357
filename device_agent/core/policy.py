"""Rules of the owner's policy: what may leave this device, whoever asks.

A method's card says what it has devices send. What the policy forbids is not computed, and what was
computed before it was forbidden stays in the outbox, unsent. The device says once per stage that it
gives nothing, and why, so that nobody waits for it.
"""

from __future__ import annotations

from device_agent.core.state import Rules
from methods.errors import UnknownMethodError
from methods.registry import card
from schemas.contributions import Contribution, PayloadKind

_FEATURES: PayloadKind = "features"


def refusal(rules: Rules, method: str) -> str:
    """Return why this device gives nothing for a method; empty where it may.

    A method that is unknown here fails when it is worked for, by name.
    """
    try:
        kinds = card(method).payload_kinds
    except UnknownMethodError:
        return ""
    if rules.publish_features or _FEATURES not in kinds:
        return ""
    return (
        "policy.publish_features = false: this device does not publish features; "
        f"method {method!r} needs them, and the device's owner decides in agent.toml"
    )


def may_send(rules: Rules, contribution: Contribution) -> bool:
    """Whether a payload may leave this device."""
    return rules.publish_features or contribution.payload_kind != _FEATURES
