"""Small readers of files and descriptors."""

import select


def read_text(path: str, limit: int = 1 << 20) -> str:
    """Return a file's text; raises OSError."""
    with open(path, "rb", buffering=0) as file:
        data = b""
        while len(data) < limit:
            part = file.read(limit - len(data))
            if not part:
                break
            data += part
    return data.decode("utf-8", "replace")


def read_text_or(path: str, default: str = "") -> str:
    """Return a file's stripped text, or `default` where it cannot be read."""
    try:
        return read_text(path).strip()
    except OSError:
        return default


def wait_readable(fds: list[int], timeout_s: float) -> list[int]:
    """Return those descriptors that have data or their end to read, once there is one or the time is over."""
    poller = select.poll()
    for fd in fds:
        poller.register(fd, select.POLLIN)
    return [fd for fd, _ in poller.poll(timeout_s * 1000 + 1)]
