"""Where offered files lie elsewhere, as the coordinator says, and what of it the owner allows.

URLs are hints for fetching and decide nothing, so the rules are not told of them, and nothing of
them is kept: the messages come again after every start, with newer ones.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from fleetledger.device_agent.core import inputs
from fleetledger.device_agent.home.home import AgentHome
from fleetledger.device_agent.settings import FilesSettings
from fleetledger.schemas.assignments import Assignment
from fleetledger.schemas.models import DesiredModel
from fleetledger.schemas.offers import HTTPS
from fleetledger.schemas.presence import Capabilities
from fleetledger.schemas.values import Digest
from fleetledger.transport.alternative_source import HttpsRules, OwnHost
from fleetledger.transport.tls import find_tls

Offering = TypeVar("Offering", Assignment, DesiredModel)


class HeardUrls:
    """The URLs of the newest assignment and desired model that were heard."""

    def __init__(self) -> None:
        self._urls: dict[str, dict[Digest, str]] = {}

    def noted(self, event: inputs.Input) -> inputs.Input:
        """Keep the URLs of a message, and return it without them."""
        match event:
            case inputs.Assigned(assignment=assignment):
                return replace(event, assignment=self._without(assignment))
            case inputs.DesiredArrived(desired=desired):
                return replace(event, desired=self._without(desired))
            case _:
                return event

    def of(self, digest: Digest) -> str | None:
        """Return where a file may be had by HTTP; None where nobody said."""
        return next((urls[digest] for urls in self._urls.values() if digest in urls), None)

    def _without(self, body: Offering) -> Offering:
        self._urls[body.kind] = {item.digest: item.url for item in body.urls}
        return body.model_copy(update={"urls": ()}) if body.urls else body


def https_rules(home: AgentHome) -> HttpsRules | None:
    """Return from where the owner lets files be fetched; None for nowhere.

    Raises `TlsError` for certificates that cannot be used.
    """
    files = home.settings.files
    if not files.https:
        return None
    ca_file = None if files.ca_file is None else home.folder / files.ca_file
    broker = home.settings.broker
    tls = find_tls(broker.tls, home.folder, home.settings.device)
    own = OwnHost(files.coordinator or broker.host, tls)
    rules = HttpsRules(frozenset(name.lower() for name in files.hosts), ca_file, own)
    if ca_file is not None:
        rules.context()
    return rules


def reported_capabilities(found: Capabilities, files: FilesSettings) -> Capabilities:
    """Return what the coordinator is told: an owner who fetches nothing by HTTP needs no URLs."""
    if files.https:
        return found
    return found.model_copy(update={"features": found.features - {HTTPS}})
