"""Who wants which topic, looked up instead of tried."""

from __future__ import annotations

import random

from fleetledger.transport.filters import matches
from fleetledger.transport.subscriptions import Subscriptions


def test_exact_filters_and_wildcards_give_the_highest_qos() -> None:
    subscriptions = Subscriptions()
    subscriptions.add("device", {"f/down/device/rcpt": 1})
    subscriptions.add("coordinator", {"f/up/+/msg": 1, "f/up/+/hb": 0, "f/#": 0})
    assert subscriptions.wanting("f/down/device/rcpt") == {"device": 1, "coordinator": 0}
    assert subscriptions.wanting("f/up/device/msg") == {"coordinator": 1}
    assert subscriptions.wanting("g/up/device/msg") == {}
    subscriptions.clear()
    assert subscriptions.wanting("f/up/device/msg") == {}


def test_looking_up_finds_what_trying_every_filter_finds() -> None:
    chance = random.Random(5)
    filters = ["/".join(chance.choices("ab+", k=chance.randint(1, 3))) for _ in range(30)]
    filters += [f"{item}/#" for item in filters[:8]]
    clients = {str(number): chance.sample(filters, 4) for number in range(12)}
    subscriptions = Subscriptions()
    for client, chosen in clients.items():
        subscriptions.add(client, dict.fromkeys(chosen, 1))
    for _ in range(100):
        topic = "/".join(chance.choices("abc", k=chance.randint(1, 3)))
        expected = {c for c, chosen in clients.items() if any(matches(f, topic) for f in chosen)}
        assert set(subscriptions.wanting(topic)) == expected
