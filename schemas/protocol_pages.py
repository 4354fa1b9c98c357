"""The generated pages of docs/protocol: the table of messages and the frame around them."""

from __future__ import annotations

import inspect

from fleetledger.schemas import envelope, seals
from fleetledger.schemas.canonical import MAX_DEPTH
from fleetledger.schemas.catalogue import CATALOGUE, CatalogueEntry
from fleetledger.schemas.envelope import Envelope, Header, Sender, encode
from fleetledger.schemas.presence import Heartbeat
from fleetledger.schemas.topics import ROOT
from fleetledger.schemas.values import BootId, DeviceId, FleetId

_README = """\
# The protocol

Written by `python -m fleetledger.schemas.generate`; edit the models in `schemas/`, not this page.

A device and the coordinator of its fleet talk over MQTT (5, or 3.1.1) in
[envelopes](envelope.md): a line of JSON, then raw bytes. Every topic begins with
`{root}/<fleet>/`. The device id is the MQTT user name, and the broker lets a device
publish under `up/<its id>/` and receive under `down/<its id>/` and `all/` only.

An acknowledgement of the broker says that the broker has the message, no more. What must not be
lost is sent again until the coordinator's `receipt` arrives, and repeats are answered with the
same receipt. Data above {inline:,} bytes is not sent but offered: the receiver fetches it in
blocks (`block.request`, `block.data`) on a second connection and checks each by its SHA-256.

[asyncapi.json](asyncapi.json) says the same to programs, with quality of service and retention
([AsyncAPI](https://www.asyncapi.com/docs/reference/specification/v3.0.0) 3.0).

| kind | from | topic | retained | attachment | JSON Schema of the body |
| --- | --- | --- | --- | --- | --- |
{rows}

## What each says

{descriptions}
"""

_ENVELOPE = """\
# The envelope

Written by `python -m fleetledger.schemas.generate`; edit `schemas/envelope.py`, not this page.

    <header: canonical JSON in one line> LF <attachment: raw bytes, possibly none>

Canonical JSON has its keys sorted by code point, no spaces, UTF-8 without escapes that JSON does
not demand, finite numbers, and at most {depth} levels. A reader refuses a header line that is not
the canonical one, so a message has one `message_id`: the SHA-256 of the header line with a null in
the signature's place. The header pins the attachment by size and digest, so the id covers the whole
message.

Over a network an attachment may travel as one [zstd](https://www.rfc-editor.org/rfc/rfc8878) frame
where that is shorter. Size and digest in the header are of the plain bytes. After the header line
there are fewer bytes than `attachment_size` then, which begin with 28 B5 2F FD, and the frame
declares exactly that size; otherwise it is refused before it is unpacked. The line, and so id and
signature, are the same either way.

A signature, where there is one, is Ed25519 (RFC 8032) over

    {domain} NUL <topic below the fleet's, such as up/crane-7/msg> LF <the line with signature null>

in base64, of which one spelling is accepted. So no message is worth anything on another topic, in
another fleet, or for another purpose. `key` is the hash in the public key's text
(NAME+HASH+KEY, as [signed notes](https://c2sp.org/signed-note) write it). Who must sign what:
[trust](../trust.md).

| bound | bytes |
| --- | --- |
| header line | {header:,} |
| attachment | {attachment:,} |
| payload that is attached; above, it is offered and fetched in blocks | {inline:,} |

| header field | meaning |
| --- | --- |
{fields}

A reader refuses a [version](../versions.md) of the wire that it does not speak, an unknown field, a
missing field, and an attachment of another size or digest, each with a text that says which. The
body's fields depend on the kind: see [the table of messages](README.md).
[envelope.schema.json](envelope.schema.json) is the JSON Schema of the header.

A heartbeat on the wire, {size} bytes in all (its message id is `{message_id}`):

```json
{line}
```
"""


def readme() -> str:
    """Return the page that lists every kind of message."""
    return _README.format(
        root=ROOT,
        inline=envelope.INLINE_LIMIT,
        rows="\n".join(_row(entry) for entry in CATALOGUE),
        descriptions="\n".join(_description(entry) for entry in CATALOGUE),
    )


def envelope_page() -> str:
    """Return the page about the frame, with an example that this code has made."""
    sample = example()
    data = encode(sample)
    return _ENVELOPE.format(
        depth=MAX_DEPTH,
        domain=seals.DOMAIN,
        header=envelope.MAX_HEADER_BYTES,
        attachment=envelope.MAX_ATTACHMENT_BYTES,
        inline=envelope.INLINE_LIMIT,
        fields="\n".join(_field(name) for name in Header.model_fields),
        size=len(data),
        message_id=sample.message_id,
        line=data.decode("utf-8").rstrip("\n"),
    )


def example() -> Envelope:
    """Return the heartbeat that the page shows."""
    sender = Sender(FleetId("harbour"), DeviceId("crane-7"), BootId("0123456789abcdef"), 41)
    body = Heartbeat(
        welcomed=True,
        assignment_action=17,
        outbox_length=1,
        waiting_images=12,
        resident_bytes=98_566_144,
        bytes_up=71_204,
        bytes_down=0,
    )
    return sender.seal(body, sent_ms=1_795_219_200_000)


def _row(entry: CatalogueEntry) -> str:
    topics = "<br>".join(f"`{branch}`" for branch in entry.branches)
    retained = "yes" if entry.retained else ""
    return (
        f"| `{entry.kind}` | {entry.sender} | {topics} | {retained} | {entry.attachment} "
        f"| [{entry.model.__name__}]({entry.kind}.schema.json) |"
    )


def _description(entry: CatalogueEntry) -> str:
    summary = " ".join((inspect.getdoc(entry.model) or "").split())
    return f"- **`{entry.kind}`** ({entry.model.__module__}): {summary}"


def _field(name: str) -> str:
    return f"| `{name}` | {Header.model_fields[name].description} |"
