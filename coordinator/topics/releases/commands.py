"""The operator's commands about roots and releases."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from fleetledger.runtime.strict import Strict
from fleetledger.schemas.releases import SignedRelease
from fleetledger.schemas.roots import SignedRoot


class PublishRoot(Strict):
    """Let devices that have a root follow to the next one."""

    verb: Literal["publish-root"] = "publish-root"
    root: SignedRoot
    anew: bool = False
    """The keys of the root before are lost: begin again with this one."""


class SignModel(Strict):
    """Let out what is desired, by a release that was signed elsewhere."""

    verb: Literal["sign-model"] = "sign-model"
    action: int = Field(ge=0)
    """Ledger index of the entry that made the version desired."""
    signed: SignedRelease


ReleaseCommand = PublishRoot | SignModel
