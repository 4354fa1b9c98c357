"""Authentication and access rules for amqtt, in place of its own plugins.

Its anonymous plugin lets everybody in, its password plugin hashes with Argon2 on the event loop,
and its access lists are static per user.
"""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from amqtt.contexts import Action, BaseContext
from amqtt.plugins.base import BaseAuthPlugin, BaseTopicPlugin
from amqtt.session import Session

from fleetledger.transport.access import client_id_belongs_to, is_allowed


class SecretAuthentication(BaseAuthPlugin):  # type: ignore[misc] # amqtt has no usable hints
    """Lets in who knows its secret, under a client id and with a will of its own."""

    @dataclass
    class Config:
        """Path of the JSON file whose `users` maps names to secrets."""

        path: str = ""

    def __init__(self, context: BaseContext) -> None:
        super().__init__(context)
        self._users: dict[str, str] = {}

    async def authenticate(self, *, session: Session) -> bool:
        """Say whether the session may be opened."""
        user = session.username or ""
        return (
            self._knows(user, session.password or "")
            and client_id_belongs_to(user, session.client_id or "")
            and (not session.will_flag or is_allowed(user, "publish", session.will_topic))
        )

    def _knows(self, user: str, secret: str) -> bool:
        if user not in self._users:  # perhaps admitted since
            self._users = json.loads(Path(self.config.path).read_text())["users"]
        known = self._users.get(user, "")
        return bool(known) and secrets.compare_digest(known.encode(), secret.encode())


class TopicAccess(BaseTopicPlugin):  # type: ignore[misc] # amqtt has no usable hints
    """Applies the rules of `transport.access` when publishing, subscribing and delivering."""

    async def topic_filtering(
        self,
        *,
        session: Session | None = None,
        topic: str | None = None,
        action: Action | None = None,
    ) -> bool:
        """Say whether the session's user may do `action` on `topic`."""
        user: Any = session.username if session is not None else None
        if not user or not topic:
            return False
        return is_allowed(user, "publish" if action == Action.PUBLISH else "receive", topic)
