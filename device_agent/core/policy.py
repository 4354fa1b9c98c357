"""Rules of the owner's policy: what may leave this device, whoever asks.

A method's card says what it has devices send. What the policy forbids is not computed, and what was
computed before it was forbidden stays in the outbox, unsent. The device says once per stage that it
gives nothing, and why, so that nobody waits for it. Gradients for a proxy are no part of an answer:
a device that keeps them to itself trains and answers like any other.
"""

from __future__ import annotations

from device_agent.core.state import Rules
from methods.card import Card
from methods.errors import UnknownMethodError
from methods.registry import card
from schemas.contributions import Contribution, PayloadKind
from schemas.proxy import PrototypeGradients

_FEATURES: PayloadKind = "features"


def refusal(rules: Rules, method: str) -> str:
    """Return why this device gives nothing for a method; empty where it may.

    A method that is unknown here fails when it is worked for, by name.
    """
    known = _card(method)
    if known is None or rules.publish_features or _FEATURES not in known.payload_kinds:
        return ""
    return (
        "policy.publish_features = false: this device does not publish features; "
        f"method {method!r} needs them, and the device's owner decides in agent.toml"
    )


def publishes_gradients(rules: Rules, method: str) -> bool:
    """Whether this device keeps gradients for a proxy: the method has one, and the owner agrees."""
    known = _card(method)
    return known is not None and known.proxy and rules.publish_gradients


def withheld(rules: Rules, method: str) -> str:
    """Return why a method's proxy gets no gradients from this device; empty where it may."""
    known = _card(method)
    if known is None or not known.proxy or rules.publish_gradients:
        return ""
    return (
        "policy.publish_gradients = false: this device sends the proxy no gradients; it trains for "
        f"method {method!r} and answers without them, and its owner decides in agent.toml"
    )


def may_send(rules: Rules, body: Contribution | PrototypeGradients) -> bool:
    """Whether a payload may leave this device."""
    if isinstance(body, PrototypeGradients):
        return rules.publish_gradients
    return rules.publish_features or body.payload_kind != _FEATURES


def _card(method: str) -> Card | None:
    try:
        return card(method)
    except UnknownMethodError:
        return None
