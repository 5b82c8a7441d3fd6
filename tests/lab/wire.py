"""A bad cable: forwards frames between two interfaces late, or not at all. Runs on the lab's switch.

    python -I wire.py NEAR FAR DELAY_S LOSS SEED [BYTES_PER_S]

Not every kernel has the netem queue, so it is done here. Frames are read and written with their virtio
header, which keeps unfinished checksums and large segments as the kernel handed them over.
"""

import heapq
import random
import select
import socket
import sys
import time
from dataclasses import dataclass, field

ETH_P_ALL = 3
SOL_PACKET = 263
PACKET_VNET_HDR = 15
PACKET_IGNORE_OUTGOING = 23
BUFFER = 8 << 20
MAX_FRAME = 1 << 17
QUEUE_S = 0.1
"""What a narrow cable holds back; frames beyond it are lost, as in a switch."""


@dataclass(order=True)
class Late:
    """A frame and when it is due."""

    due_s: float
    number: int
    frame: bytes = field(compare=False)
    to: socket.socket = field(compare=False)


def end_of(interface: str) -> socket.socket:
    """Open an interface for whole frames."""
    end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    end.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
    end.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
    end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER)
    end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER)
    end.bind((interface, ETH_P_ALL))
    return end


def forward(
    near: socket.socket,
    far: socket.socket,
    delay_s: float,
    loss: float,
    chance: random.Random,
    rate: float = float("inf"),
) -> None:
    """Carry frames both ways for ever, each way `rate` bytes per second at most."""
    other = {near: far, far: near}
    free_s = {near: 0.0, far: 0.0}
    waiting: list[Late] = []
    number = 0
    while True:
        timeout_s = max(0.0, waiting[0].due_s - time.monotonic()) if waiting else None
        readable, _, _ = select.select([near, far], [], [], timeout_s)
        now_s = time.monotonic()
        for end in readable:
            frame = end.recv(MAX_FRAME)
            if chance.random() >= loss and free_s[end] - now_s <= QUEUE_S:
                number += 1
                free_s[end] = max(now_s, free_s[end]) + len(frame) / rate
                heapq.heappush(waiting, Late(free_s[end] + delay_s, number, frame, other[end]))
        while waiting and waiting[0].due_s <= now_s:
            late = heapq.heappop(waiting)
            try:
                late.to.send(late.frame)
            except OSError as error:
                sys.stderr.write(f"{error}\n")  # an interface that is down loses its frames, as a cable would


if __name__ == "__main__":
    NEAR, FAR, DELAY_S, LOSS, SEED = sys.argv[1:6]
    RATE = float(sys.argv[6]) if len(sys.argv) > 6 else float("inf")
    ENDS = end_of(NEAR), end_of(FAR)
    print("ready", flush=True)  # noqa: T201 - a program of its own, awaited by this line
    forward(*ENDS, float(DELAY_S), float(LOSS), random.Random(int(SEED)), RATE)
