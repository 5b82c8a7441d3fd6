"""What a client says to the supervisor that it follows: stop, detach, farewell, and that it is alive."""

import time
from collections import deque

from launcher.text import one_line
from launcher.transports.base import Stream

_BYE = b"bye\n"
_HEARTBEAT_S = 1.0


class ClientMessages:
    """Messages for one host, each kept until a connection has taken it."""

    def __init__(self) -> None:
        self._unsent: deque[bytes] = deque()
        self._sent_at = 0.0

    def stop(self, grace_s: float, why: str, *, stacks: bool, failed: bool) -> None:
        """Have the run ended: SIGTERM, `grace_s`, SIGKILL. `stacks`: it hangs; `failed`: no person asks."""
        word = b"hung" if stacks else b"failed" if failed else b"stop"
        self._unsent.append(b"%s %.3f %s\n" % (word, grace_s, one_line(why).encode()))

    def detach(self) -> None:
        """Have the run continue without its client."""
        self._unsent.append(b"detach\n")

    def close(self) -> None:
        """Say farewell; nothing is sent after it."""
        self._unsent.append(_BYE)

    @property
    def ends(self) -> bool:
        """Whether the client has nothing more to say than its farewell."""
        return bool(self._unsent) and self._unsent[-1] == _BYE

    def send(self, stream: Stream) -> bool:
        """Send what is unsent, or a heartbeat when one is due; return whether the farewell is sent."""
        now, is_over = time.monotonic(), False
        while self._unsent:
            stream.write(self._unsent[0])
            is_over = self._unsent.popleft() == _BYE or is_over
            self._sent_at = now
        if now - self._sent_at > _HEARTBEAT_S:
            self._sent_at = now
            stream.write(b"beat\n")
        return is_over
