"""The protocol as an AsyncAPI 3 document, for tools that draw it or generate clients from it.

An AsyncAPI document describes one application. This one is the device's: what it sends, what it
receives. What the coordinator and the proxy say to each other is the proxy's, and tagged so. The
payload of a message is the envelope's header line, whose `body` depends on the kind; the JSON
Schemas lie beside the document.
"""

from __future__ import annotations

import inspect
import json
from typing import Any

from fleetledger.schemas.catalogue import CATALOGUE, CatalogueEntry
from fleetledger.schemas.topics import PROTOCOL_VERSION, ROOT, qos_of

FILE_NAME = "asyncapi.json"
VERSION = "3.0.0"
"""Of AsyncAPI."""
MQTT_BINDING = "0.2.0"
DIALECT = "application/schema+json;version=draft-2020-12"
CONTENT_TYPE = "application/vnd.fleetledger.envelope"
_SESSION_SECONDS = 24 * 3600
_SEPARATOR = "."

Json = dict[str, Any]


def document() -> str:
    """Return the document as JSON text."""
    return json.dumps(_document(), indent=2, ensure_ascii=False, sort_keys=True) + "\n"


def _document() -> Json:
    return {
        "asyncapi": VERSION,
        "info": {
            "title": "fleetledger",
            "version": str(PROTOCOL_VERSION),
            "description": "What a device of a fleet and its coordinator say to each other. Seen "
            "from the device; written by `python -m fleetledger.schemas.generate`.",
            "license": {"name": "Apache-2.0"},
        },
        "servers": {"broker": _server()},
        "channels": {_channel_name(branch): _channel(branch) for branch in _branches()},
        "operations": {
            _operation_name(entry, branch): _operation(entry, branch)
            for entry in CATALOGUE
            for branch in entry.branches
        },
        "components": {"messages": {entry.kind: _message(entry) for entry in CATALOGUE}},
    }


def _server() -> Json:
    return {
        "host": "{host}:{port}",
        "protocol": "mqtt",
        "protocolVersion": "5",
        "description": "The fleet's broker; MQTT 3.1.1 works too. It is trusted with nothing but "
        "who may publish and receive where, by user name.",
        "variables": {
            "host": {"default": "127.0.0.1"},
            "port": {"default": "1883", "description": "Of TLS usually 8883."},
        },
        "security": [{"type": "userPassword"}],
        "bindings": {
            "mqtt": {
                "cleanSession": False,
                "sessionExpiryInterval": _SESSION_SECONDS,
                "bindingVersion": MQTT_BINDING,
            }
        },
    }


def _branches() -> list[str]:
    return list(dict.fromkeys(branch for entry in CATALOGUE for branch in entry.branches))


def _channel_name(branch: str) -> str:
    return branch.replace("<", "").replace(">", "").replace("/", _SEPARATOR)


def _channel(branch: str) -> Json:
    channel: Json = {
        "address": f"{ROOT}/{{fleet}}/{branch.replace('<', '{').replace('>', '}')}",
        "parameters": {"fleet": {"description": "Name of the fleet."}},
        "messages": {
            entry.kind: {"$ref": f"#/components/messages/{entry.kind}"}
            for entry in CATALOGUE
            if branch in entry.branches
        },
    }
    if "<device>" in branch:
        channel["parameters"]["device"] = {"description": "The device id, its MQTT user name."}
    if "<digest>" in branch:
        channel["parameters"]["digest"] = {"description": "SHA-256 of the whole file."}
    return channel


def _operation_name(entry: CatalogueEntry, branch: str) -> str:
    own = (_who(branch), _does(branch), entry.kind)
    shared = branch.startswith("all/") and len(entry.branches) > 1
    return _SEPARATOR.join((*own, "all") if shared else own)


def _operation(entry: CatalogueEntry, branch: str) -> Json:
    name = _channel_name(branch)
    return {
        "action": _does(branch),
        "channel": {"$ref": f"#/channels/{name}"},
        "messages": [{"$ref": f"#/channels/{name}/messages/{entry.kind}"}],
        "tags": [{"name": _who(branch)}],
        "bindings": {
            "mqtt": {
                "qos": qos_of(branch.removesuffix("/<digest>").rpartition("/")[2]),
                "retain": entry.retained,
                "bindingVersion": MQTT_BINDING,
            }
        },
    }


def _who(branch: str) -> str:
    """Return whose operation it is: the proxy's where it speaks with the coordinator."""
    return "device" if "<device>" in branch or branch.startswith("all/") else "proxy"


def _does(branch: str) -> str:
    """Return what its application does with the message."""
    return "send" if "up" in branch.split("/") else "receive"


def _message(entry: CatalogueEntry) -> Json:
    message: Json = {
        "name": entry.kind,
        "title": entry.model.__name__,
        "summary": " ".join((inspect.getdoc(entry.model) or "").split()),
        "contentType": CONTENT_TYPE,
        "payload": {
            "schemaFormat": DIALECT,
            "schema": {
                "allOf": [
                    {"$ref": "./envelope.schema.json"},
                    {
                        "properties": {
                            "kind": {"const": entry.kind},
                            "body": {"$ref": f"./{entry.kind}.schema.json"},
                        }
                    },
                ]
            },
        },
        "bindings": {"mqtt": {"contentType": CONTENT_TYPE, "bindingVersion": MQTT_BINDING}},
    }
    if entry.attachment:
        message["description"] = f"Raw bytes follow the header line: {entry.attachment}."
    return message
