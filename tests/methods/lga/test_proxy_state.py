"""What the proxy remembers comes back from its file, and other files are refused."""

import numpy as np
import pytest
import torch

from fleetledger.methods.errors import MethodError
from fleetledger.methods.lga.encoding import Encoding
from fleetledger.methods.lga.proxy_state import Prototype, ProxyState, Waiting, read_state
from fleetledger.methods.lga.slots import Slots
from fleetledger.schemas.proxy import ScoredModel
from fleetledger.schemas.tensors import Expected, UpTo, encode_tensors, read_tensors
from fleetledger.schemas.values import ClassName, Digest

pytestmark = pytest.mark.torch

ENCODING = Encoding(1, 4, 3, seed=1)
DIGEST = Digest.of(b"weights")
MODEL = ScoredModel(round=3, weights=DIGEST, score=0.1 + 0.2)
STATE = ProxyState(
    slots=Slots(2, DIGEST, Digest.of(b"newer"), 0.3, (MODEL,)),
    pool=(
        Prototype(ClassName("ant"), torch.rand(2, 1, 4, 4), 0.1),
        Prototype(ClassName("bee"), torch.rand(3, 1, 4, 4), 1 / 3),
    ),
    waiting=(Waiting(2, b"many bytes"), Waiting(1, b"few")),
    gradients=7,
    omega_before=0.7,
    old_classes=4,
)


def test_a_state_comes_back_as_it_was():
    found = read_state(ENCODING, STATE.write())
    assert found.slots == STATE.slots
    assert found.waiting == STATE.waiting
    assert (found.gradients, found.omega, found.old_classes) == (7, STATE.omega, 4)
    for one, other in zip(found.pool, STATE.pool, strict=True):
        assert (one.name, one.trace) == (other.name, other.trace)
        assert torch.equal(one.iterates, other.iterates)
    assert found.write() == STATE.write()


def test_before_anything_happened_there_is_an_empty_state():
    for found in (read_state(ENCODING, None), read_state(ENCODING, ProxyState().write())):
        assert (found.slots, found.pool, found.waiting) == (Slots(), (), ())


def changed(tensors=None, **facts):
    expected = {
        "pictures": Expected("float32", tuple(UpTo(99) for _ in range(4))),
        "waiting": Expected("uint8", (UpTo(99),)),
    }
    file = read_tensors(STATE.write(), expected, 1 << 20)
    return encode_tensors({**file.tensors, **(tensors or {})}, {**file.metadata, **facts})


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"nothing", "proxy: header"),
        (changed({"pictures": np.zeros((4, 1, 4, 4), np.float32)}), "4 pictures, where .* 5"),
        (changed({"pictures": np.zeros((5, 3, 4, 4), np.float32)}), "does not fit"),
        (changed({"waiting": np.zeros(1, np.uint8)}), "1 waiting bytes, where .* 13"),
        (changed(omega_before=-1.0), "omega_before"),
        (changed(best=2.0), "best"),
        (changed(task=-1), "task"),
        (changed(other=1), "other"),
    ],
)
def test_another_file_is_refused_by_name(data, words):
    with pytest.raises(MethodError, match=words):
        read_state(ENCODING, data)
