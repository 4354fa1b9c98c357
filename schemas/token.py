"""The token that an operator gives to a device's owner, once: `fl1.` and base64url of JSON.

It holds a secret. So it has no `repr` that shows it, and no error here quotes what was read.
"""

from __future__ import annotations

import base64
import secrets

from pydantic import Field
from typing_extensions import Self

from fleetledger.runtime.count_words import count_of
from fleetledger.runtime.errors import SchemaError
from fleetledger.runtime.strict import Strict
from fleetledger.schemas.canonical import canonical_json, parse_json
from fleetledger.schemas.enrolment import SECRET_BYTES
from fleetledger.schemas.keys import VerifyKey
from fleetledger.schemas.values import DeviceId, Digest, FleetId

PREFIX = "fl1."
MAX_TOKEN = 2000
"""Characters; real ones have about 400."""


class Token(Strict):
    """What a device needs to become one of the fleet.

    The law: `Token.read(token.text) == token`, and no other text is read as the same token.
    """

    fleet: FleetId
    device: DeviceId
    coordinator_key: VerifyKey
    """Whose word the device is to believe."""
    secret: str = Field(pattern=rf"^[0-9a-f]{{{2 * SECRET_BYTES}}}$", repr=False)
    expires_ns: int = Field(ge=0, lt=2**63)
    """Nanoseconds since 1970 by the coordinator's clock, which alone counts."""

    @classmethod
    def fresh(
        cls, fleet: FleetId, device: DeviceId, coordinator_key: VerifyKey, expires_ns: int
    ) -> Self:
        """Return a token with a new random secret."""
        return cls(
            fleet=fleet,
            device=device,
            coordinator_key=coordinator_key,
            secret=secrets.token_hex(SECRET_BYTES),
            expires_ns=expires_ns,
        )

    @classmethod
    def read(cls, text: str) -> Self:
        """Return what `text` says; raise `SchemaError`, which does not quote it."""
        text = text.strip()
        token = cls._parsed(text)
        if token is None or token.text != text:
            raise SchemaError(
                f"token: this is none ({count_of(len(text), 'character')}); give the whole line "
                "that `fleetledger coordinator enrol` printed"
            )
        return token

    @classmethod
    def _parsed(cls, text: str) -> Self | None:
        """Return what a text seems to say; the errors would show the secret, so they end here."""
        if len(text) > MAX_TOKEN or not text.startswith(PREFIX):
            return None
        body = text[len(PREFIX) :]
        try:
            data = base64.urlsafe_b64decode(body + "=" * (-len(body) % 4))
            return cls.model_validate(parse_json(data))
        except (ValueError, SchemaError):
            return None

    @property
    def text(self) -> str:
        """The token on one line."""
        data = canonical_json(self.model_dump(mode="json"))
        return PREFIX + base64.urlsafe_b64encode(data).decode("ascii").rstrip("=")

    @property
    def secret_bytes(self) -> bytes:
        """The secret, 32 bytes."""
        return bytes.fromhex(self.secret)

    @property
    def invitation(self) -> Digest:
        """The secret's digest, by which the ledger names the token."""
        return Digest.of(self.secret_bytes)
