"""Topic filters of MQTT: what a filter with wildcards covers."""

from __future__ import annotations

from functools import lru_cache


@lru_cache(maxsize=1 << 14)
def matches(topic_filter: str, topic: str) -> bool:
    """Say whether `topic_filter` (with `+` and `#`) covers `topic`.

    A filter that begins with a wildcard covers no topic that begins with `$` (MQTT 4.7.2).
    """
    if topic.startswith("$") and topic_filter[:1] in ("+", "#"):
        return False
    return covers(topic_filter, topic)


def covers(outer: str, inner: str) -> bool:
    """Say whether every topic under the filter `inner` is also under the filter `outer`.

    A topic is a filter without wildcards, so this is also plain matching.
    """
    outer_levels, inner_levels = outer.split("/"), inner.split("/")
    for position, level in enumerate(outer_levels):
        if level == "#":
            return True
        if position >= len(inner_levels) or inner_levels[position] == "#":
            return False
        if level not in ("+", inner_levels[position]):
            return False
    return len(outer_levels) == len(inner_levels)
