"""One rule for signatures: whichever library is installed, a ledger's verdicts are the same."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from fleetledger.schemas.ed25519 import Ed25519Library, library, openssl, sodium
from tests.schemas.slow_ed25519 import (
    BASE,
    ORDER,
    accepts,
    added,
    encoded,
    encodings,
    signature_of,
    small_points,
    times,
)

SODIUM, OPENSSL = sodium(), openssl()
assert SODIUM is not None, "the tests' installation brings PyNaCl"
LIBRARIES = (SODIUM, OPENSSL)
SMALL = small_points()
MESSAGE = b"an entry"
SECRET, NONCE = 0x1F2E3D4C5B6A, 0x102030405060708

# The twelve cases of "Taming the many EdDSAs" (Chalkias, Garillot, Nikolaenko, 2020): message, key,
# signature.
PUBLISHED = (
    (
        "8c93255d71dcab10e8f379c26200f3c7bd5f09d9bc3068d3ef4edeb4853022b6",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a"
        "0000000000000000000000000000000000000000000000000000000000000000",
    ),
    (
        "9bd9f44f4dcc75bd531b56b2cd280b0bb38fc1cd6d1230e14861d861de092e79",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
        "f7badec5b8abeaf699583992219b7b223f1df3fbbea919844e3f7c554a43dd43"
        "a5bb704786be79fc476f91d3f3f89b03984d8068dcf1bb7dfc6637b45450ac04",
    ),
    (
        "aebf3f2601a0c8c5d39cc7d8911642f740b78168218da8471772b35f9d35b9ab",
        "f7badec5b8abeaf699583992219b7b223f1df3fbbea919844e3f7c554a43dd43",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa"
        "8c4bd45aecaca5b24fb97bc10ac27ac8751a7dfe1baff8b953ec9f5833ca260e",
    ),
    (
        "9bd9f44f4dcc75bd531b56b2cd280b0bb38fc1cd6d1230e14861d861de092e79",
        "cdb267ce40c5cd45306fa5d2f29731459387dbf9eb933b7bd5aed9a765b88d4d",
        "9046a64750444938de19f227bb80485e92b83fdb4b6506c160484c016cc1852f"
        "87909e14428a7a1d62e9f22f3d3ad7802db02eb2e688b6c52fcd6648a98bd009",
    ),
    (
        "e47d62c63f830dc7a6851a0b1f33ae4bb2f507fb6cffec4011eaccd55b53f56c",
        "cdb267ce40c5cd45306fa5d2f29731459387dbf9eb933b7bd5aed9a765b88d4d",
        "160a1cb0dc9c0258cd0a7d23e94d8fa878bcb1925f2c64246b2dee1796bed512"
        "5ec6bc982a269b723e0668e540911a9a6a58921d6925e434ab10aa7940551a09",
    ),
    (
        "e47d62c63f830dc7a6851a0b1f33ae4bb2f507fb6cffec4011eaccd55b53f56c",
        "cdb267ce40c5cd45306fa5d2f29731459387dbf9eb933b7bd5aed9a765b88d4d",
        "21122a84e0b5fca4052f5b1235c80a537878b38f3142356b2c2384ebad4668b7"
        "e40bc836dac0f71076f9abe3a53f9c03c1ceeeddb658d0030494ace586687405",
    ),
    (
        "85e241a07d148b41e47d62c63f830dc7a6851a0b1f33ae4bb2f507fb6cffec40",
        "442aad9f089ad9e14647b1ef9099a1ff4798d78589e66f28eca69c11f582a623",
        "e96f66be976d82e60150baecff9906684aebb1ef181f67a7189ac78ea23b6c0e"
        "547f7690a0e2ddcd04d87dbc3490dc19b3b3052f7ff0538cb68afb369ba3a514",
    ),
    (
        "85e241a07d148b41e47d62c63f830dc7a6851a0b1f33ae4bb2f507fb6cffec40",
        "442aad9f089ad9e14647b1ef9099a1ff4798d78589e66f28eca69c11f582a623",
        "8ce5b96c8f26d0ab6c47958c9e68b937104cd36e13c33566acd2fe8d38aa1942"
        "7e71f98a473474f2f13f06f97c20d58cc3f54b8bd0d272f42b695dd7e89a8c22",
    ),
    (
        "9bedc267423725d473888631ebf45988bad3db83851ee85c85e241a07d148b41",
        "f7badec5b8abeaf699583992219b7b223f1df3fbbea919844e3f7c554a43dd43",
        "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff"
        "03be9678ac102edcd92b0210bb34d7428d12ffc5df5f37e359941266a4e35f0f",
    ),
    (
        "9bedc267423725d473888631ebf45988bad3db83851ee85c85e241a07d148b41",
        "f7badec5b8abeaf699583992219b7b223f1df3fbbea919844e3f7c554a43dd43",
        "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff"
        "ca8c5b64cd208982aa38d4936621a4775aa233aa0505711d8fdcfdaa943d4908",
    ),
    (
        "e96b7021eb39c1a163b6da4e3093dcd3f21387da4cc4572be588fafae23c155b",
        "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
        "a9d55260f765261eb9b84e106f665e00b867287a761990d7135963ee0a7d59dc"
        "a5bb704786be79fc476f91d3f3f89b03984d8068dcf1bb7dfc6637b45450ac04",
    ),
    (
        "39a591f5321bbe07fd5a23dc2f39d025d74526615746727ceefd6e82ae65c06f",
        "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
        "a9d55260f765261eb9b84e106f665e00b867287a761990d7135963ee0a7d59dc"
        "a5bb704786be79fc476f91d3f3f89b03984d8068dcf1bb7dfc6637b45450ac04",
    ),
)
ONLY_ACCEPTED = 3
"""A key with a component of small order for which the equation holds without cofactor."""


def judged(public: bytes, signature: bytes, message: bytes = MESSAGE) -> bool:
    """The verdict of the rule, after both libraries have given the same."""
    verdict = accepts(public, signature, message)
    for one in LIBRARIES:
        assert one.verifies(public, signature, message) is verdict, one.name
    return verdict


def test_the_published_edge_cases_have_one_verdict():
    verdicts = [judged(*(bytes.fromhex(t) for t in (k, s, m))) for m, k, s in PUBLISHED]
    assert [number for number, verdict in enumerate(verdicts) if verdict] == [ONLY_ACCEPTED]


def small_components() -> Iterator[tuple[bytes, bytes]]:
    """Keys and commitments with a point of small order added, in all pairs."""
    point = times(NONCE, BASE)
    for of_key in SMALL:
        for of_commitment in SMALL:
            told = encoded(added(point, of_commitment))
            yield signature_of(SECRET, NONCE, MESSAGE, key_plus=of_key, told=told)


def test_points_of_small_order_in_key_and_commitment_have_one_verdict():
    verdicts = [judged(*case) for case in small_components()]
    assert verdicts[0]
    assert not any(verdicts[1:8]), "R is off by a small point: the equation needs the cofactor"
    assert any(verdicts[8:]), "somewhere the small points cancel out"


def test_a_key_or_commitment_of_small_order_is_refused_in_every_encoding():
    found = [data for point in SMALL for data in encodings(point)]
    assert len(found) == 14
    response = (NONCE).to_bytes(32, "little")
    for small in found:
        assert not judged(small, encoded(times(NONCE, BASE)) + response)
        assert not judged(*signature_of(SECRET, 0, MESSAGE, told=small))


def test_a_key_whose_y_is_not_below_the_prime_is_refused():
    for y in range(2**255 - 19, 2**255):
        for sign in (0, 1 << 255):
            key = (y | sign).to_bytes(32, "little")
            assert not judged(key, encoded(times(NONCE, BASE)) + bytes(32))


def test_the_order_added_to_a_response_is_refused():
    public, good = signature_of(SECRET, NONCE, MESSAGE)
    assert judged(public, good)
    response = int.from_bytes(good[32:], "little")
    for times_added in range(1, 16):
        other = response + times_added * ORDER
        assert not judged(public, good[:32] + other.to_bytes(32, "little"))


def test_bytes_do_not_move_between_signature_and_message():
    public, good = signature_of(SECRET, NONCE, MESSAGE)
    for one in LIBRARIES:
        assert not one.verifies(public, good + MESSAGE[:1], MESSAGE[1:])
        assert not one.verifies(public, good[:-1], good[-1:] + MESSAGE)
        assert not one.verifies(public, b"", good + MESSAGE)


@pytest.mark.parametrize("size", [0, 1, 63, 64, 1000, 100_000])
def test_both_libraries_make_the_same_signatures(size):
    seed, message = bytes(range(32)), bytes(size)
    publics = {one.public(seed) for one in LIBRARIES}
    made = {one.sign(seed, one.public(seed), message) for one in LIBRARIES}
    assert len(publics) == len(made) == 1
    for one in LIBRARIES:
        assert one.verifies(*publics, *made, message)


def test_flipped_bits_have_one_verdict():
    public, good = signature_of(SECRET, NONCE, MESSAGE)
    for bit in range(0, 768, 17):
        whole = bytearray(public + good)
        whole[bit // 8] ^= 1 << bit % 8
        assert not judged(bytes(whole[:32]), bytes(whole[32:]))


def test_libsodium_computes_where_it_is_installed_and_the_known_cases_hold_in_both():
    assert library().name == "libsodium"
    assert all(one.obeys_rule() for one in LIBRARIES)


@pytest.mark.parametrize("case", [1, 2, 3])
def test_a_library_that_judges_one_known_case_otherwise_does_not_obey_the_rule(case):
    asked = []

    def verify(public: bytes, signature: bytes, message: bytes) -> bool:
        asked.append(signature)
        return OPENSSL.verify(public, signature, message) is not (len(asked) == case + 1)

    assert not Ed25519Library("another", OPENSSL.public, OPENSSL.sign, verify).obeys_rule()


WITHOUT = """
import sys
sys.modules["nacl"] = None
from fleetledger.schemas.ed25519 import library
from fleetledger.schemas.keys import KeyName, SigningKey
key = SigningKey(KeyName("a"), bytes(range(32)))
key.verify_key.check(key.sign("d", b"m"), "d", b"m")
print(library().name, key.sign("d", b"m").hex())
"""


def test_without_pynacl_openssl_signs_and_checks():
    told = subprocess.run([sys.executable, "-c", WITHOUT], check=True, stdout=subprocess.PIPE)
    seed = bytes(range(32))
    made = SODIUM.sign(seed, SODIUM.public(seed), b"d\x00m").hex()
    assert told.stdout.decode().split() == ["OpenSSL", made]


WITH = """
import sys
from fleetledger.schemas.keys import KeyName, SigningKey
key = SigningKey.from_pem(KeyName("a"), SigningKey.fresh(KeyName("a")).pem)
key.verify_key.check(key.sign("d", b"m"), "d", b"m")
print(*sorted({"cryptography", "nacl"} & sys.modules.keys()))
"""


def test_who_reads_a_key_signs_and_checks_by_libsodium_does_not_load_openssl():
    told = subprocess.run([sys.executable, "-c", WITH], check=True, stdout=subprocess.PIPE)
    assert told.stdout.split() == [b"nacl"]
