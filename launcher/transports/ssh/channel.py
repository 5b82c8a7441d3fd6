"""A command running over an SSH channel."""

import contextlib
import time

import paramiko

from launcher.errors import ConnectionLost

_CHUNK = 1 << 16
_PACKET = (1 << 15) - 64
"""As much as paramiko puts into one packet for sshd; of more it would copy the rest once for each packet."""
_GONE = (OSError, EOFError, paramiko.SSHException)
"""What paramiko raises where the connection has broken; reading does too, for it grants the host room."""
_STALLED_S = 60.0  # a command that reads none of its input for this long is not going to


class SshStream:
    """See `base.Stream` for the contract."""

    def __init__(self, host: str, channel: paramiko.Channel) -> None:
        self.host = host
        self._channel = channel

    def write(self, data: bytes) -> None:
        """Send to its stdin; raises HostError when the connection is gone or the command reads no more."""
        left = memoryview(data)
        deadline = time.monotonic() + _STALLED_S
        while left:
            try:
                sent = self._channel.send(bytes(left[:_PACKET]))
            except TimeoutError:  # the channel's time-out is read()'s; only a long stall counts
                if time.monotonic() > deadline:
                    raise ConnectionLost(self.host, f"took no input for {_STALLED_S:g} s") from None
                continue
            except _GONE as failure:
                why = failure or "the connection is gone"
                raise ConnectionLost(self.host, f"the command's input was closed: {why}") from None
            if sent == 0:
                raise ConnectionLost(self.host, "the command's input was closed")
            left = left[sent:]
            deadline = time.monotonic() + _STALLED_S

    def can_write(self, data: bytes) -> bool:
        """Say whether `data` can be sent without waiting for the command to read."""
        return len(data) <= self._channel.out_window_size

    def close_stdin(self) -> None:
        """Send EOF."""
        with contextlib.suppress(*_GONE):
            self._channel.shutdown_write()

    def read(self, timeout_s: float) -> bytes | None:
        """Return the next stdout bytes, b"" at the end, None when nothing came in time."""
        self._channel.settimeout(max(0.0, timeout_s))
        try:
            return self._channel.recv(_CHUNK)
        except TimeoutError:
            return None
        except _GONE:
            return b""

    def read_stderr(self) -> bytes:
        """Return what stderr has held so far, without waiting; what comes meanwhile is for the next call."""
        with contextlib.suppress(*_GONE):
            if self._channel.recv_stderr_ready():
                return self._channel.recv_stderr(self._channel.in_window_size)
        return b""

    def wait(self, timeout_s: float) -> int | None:
        """Return the exit status, None if still running; raises ConnectionLost when it never came."""
        if not self._channel.status_event.wait(max(0.0, timeout_s)):
            return None
        if self._channel.exit_status == -1:  # paramiko's "none was sent", set when the channel closes
            raise ConnectionLost(self.host, "the connection ended before the command did")
        return self._channel.exit_status

    def close(self) -> None:
        """Drop the channel; the far side sees EOF or SIGPIPE."""
        with contextlib.suppress(*_GONE):
            self._channel.close()
