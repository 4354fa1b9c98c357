"""Why a TLS connection failed, in words that name the setting and the way out."""

from __future__ import annotations

import ssl
from datetime import datetime, timezone

from fleetledger.transport.certificates import end_of
from fleetledger.transport.errors import TlsError
from fleetledger.transport.tls import TlsFiles

_NOT_YET_VALID, _EXPIRED, _OTHER_NAME, _OTHER_ADDRESS = 9, 10, 62, 64
"""OpenSSL's `X509_V_ERR_…`."""


def explain_handshake(error: OSError, host: str, port: int, tls: TlsFiles) -> TlsError:
    """Return what to tell of a handshake that failed."""
    if not isinstance(error, ssl.SSLCertVerificationError):
        return TlsError(
            f"broker.port: {port}: no TLS with {host} there ({error}); give the port on which the "
            "broker speaks TLS, usually 8883"
        )
    said = error.verify_message
    if error.verify_code in (_OTHER_NAME, _OTHER_ADDRESS):
        return TlsError(
            f"broker.host: {host!r}: the broker's certificate is for another name ({said}); "
            "set the name that it was made for, or have one made for this name"
        )
    if error.verify_code in (_EXPIRED, _NOT_YET_VALID):
        return TlsError(
            f"broker.host: {host}:{port}: the broker's certificate is out of its time ({said}); "
            "renew it on the broker's host, and check the clock here"
        )
    believed = "the system's CAs" if tls.ca_file is None else str(tls.ca_file)
    return TlsError(
        f"broker.tls.ca_file: {believed}: did not sign the certificate of {host}:{port} ({said}); "
        "give the file of the CA that did"
    )


def hint_for_closing(tls: TlsFiles | None) -> str:
    """Return what may be wrong where a broker closes the connection without a word.

    From TLS 1.3 on a client learns only so that its certificate was refused.
    """
    if tls is None:
        return "; if it speaks TLS on this port, add [broker.tls] to the settings"
    if tls.certificate_file is None:
        return "; if it asks for certificates, set broker.tls.certificate_file and key_file"
    ends = end_of(tls.certificate_file)
    if ends is not None and ends <= datetime.now(timezone.utc):
        return (
            f"; broker.tls.certificate_file: {tls.certificate_file}: ended "
            f"{ends:%Y-%m-%d %H:%M} UTC; get a newer one from the operator, with its key"
        )
    return (
        f"; check that broker.tls.certificate_file ({tls.certificate_file}) was signed by the CA "
        "that the broker believes, and was not taken back"
    )
