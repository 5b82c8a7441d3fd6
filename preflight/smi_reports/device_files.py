"""`fuser -v /dev/nvidia*`: who has the device file of a GPU mapped, as all do that compute on it. Pure."""

from preflight import regex as re

_ROW = re.compile(
    r"^[^\S\n]*(?:/dev/nvidia([\w-]+):[^\S\n]+)?[^\s:]+[^\S\n]+(\d{1,10})[^\S\n]+[.\w]{4}([.m])[^\S\n]+(\S+)",
    re.MULTILINE,
)


def mapped_by(text: str) -> dict[int, dict[int, str]]:
    """Return {number of a device file: {pid: name}}; monitors open one without mapping it."""
    found, number = dict[int, dict[int, str]](), ""
    for device, pid, mark, name in _ROW.findall(text) if "/dev/nvidia" in text else ():
        number = device or number
        if mark == "m" and number.isdigit():
            found.setdefault(int(number), {})[int(pid)] = name
    return found
