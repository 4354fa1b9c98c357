"""Links between network namespaces that delay, lose and slow packets down, in both directions.

A kernel's `netem` does the same where it has one; this needs TUN devices alone. Each link joins two
of them, one in the namespace of the server and one in a device's. Packets of a direction leave in
their order: what is queued longer than `QUEUE_SECONDS` is dropped, as a base station does.

    python -m benchmarks.speed.poor_links.link SERVER_NAMESPACE DEVICE_NAMESPACE...

says `ready` once all are up, and ends with its standard input.
"""

from __future__ import annotations

import fcntl
import os
import random
import select
import struct
import subprocess
import sys
import time
from collections import deque
from dataclasses import dataclass, field

DELAY_SECONDS = 0.03
"""One way; 60 ms there and back."""
JITTER_SECONDS = 0.005
LOSS = 0.01
DOWN_BYTES_PER_SECOND, UP_BYTES_PER_SECOND = 2_000_000, 1_250_000
"""16 and 10 Mbit/s."""
QUEUE_SECONDS = 0.3
_TUNSETIFF, _TUN, _NO_PI = 0x400454CA, 1, 0x1000
_MTU = 1500


def address(number: int, side: int) -> str:
    """Return the address of a link's end: side 1 is the server's, 2 the device's."""
    return f"10.77.{number}.{side}"


@dataclass
class Direction:
    """Packets on their way from one end to the other."""

    source: int
    target: int
    rate: int
    chance: random.Random
    free: float = 0.0
    """When the link has sent all that is queued."""
    queued: deque[tuple[float, bytes]] = field(default_factory=deque)

    def take(self, now: float) -> None:
        """Read packets; some are lost, and some find the queue full."""
        for _ in range(64):
            try:
                packet = os.read(self.source, 2 * _MTU)
            except BlockingIOError:
                return
            if self.chance.random() < LOSS or self.free - now > QUEUE_SECONDS:
                continue
            self.free = max(self.free, now) + len(packet) / self.rate
            jitter = self.chance.uniform(-JITTER_SECONDS, JITTER_SECONDS)
            before = self.queued[-1][0] if self.queued else 0.0
            self.queued.append((max(before, self.free + DELAY_SECONDS + jitter), packet))

    def give(self, now: float) -> float:
        """Write what is due; return when the next one is."""
        while self.queued and self.queued[0][0] <= now:
            os.write(self.target, self.queued.popleft()[1])
        return self.queued[0][0] if self.queued else float("inf")


def tunnel(name: str, namespace: str, own: str, other: str) -> int:
    """Make an end of a link in a namespace; return its descriptor."""
    made = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(made, _TUNSETIFF, struct.pack("16sH22x", name.encode(), _TUN | _NO_PI))
    _ip("link", "set", name, "netns", namespace)
    _ip("-n", namespace, "addr", "add", own, "peer", other, "dev", name)
    _ip("-n", namespace, "link", "set", name, "mtu", str(_MTU), "up")
    return made


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


def main() -> None:
    """Carry packets until the standard input ends."""
    server, *devices = sys.argv[1:]
    directions = []
    for number, device in enumerate(devices):
        near = tunnel(f"fls{number}", server, address(number, 1), address(number, 2))
        far = tunnel(f"fld{number}", device, address(number, 2), address(number, 1))
        directions.append(Direction(near, far, DOWN_BYTES_PER_SECOND, random.Random(2 * number)))
        directions.append(Direction(far, near, UP_BYTES_PER_SECOND, random.Random(2 * number + 1)))
    print("ready", flush=True)
    sources = {one.source: one for one in directions}
    due = float("inf")
    while True:
        pause = min(1.0, max(0.0, due - time.monotonic()))
        readable, _, _ = select.select([sys.stdin, *sources], [], [], pause)
        if sys.stdin in readable:
            return
        now = time.monotonic()
        for source in readable:
            sources[source].take(now)
        due = min(one.give(now) for one in directions)


if __name__ == "__main__":
    main()
