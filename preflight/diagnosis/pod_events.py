"""What kubectl lists of pods that a later event or row of it undoes. Pure."""

from collections.abc import Sequence
from dataclasses import replace

from preflight import regex as re
from preflight.diagnosis.lines import Line

_EVENT = re.compile(r"\s*(?:\S+ +)?(?P<type>Normal|Warning) +(?P<reason>[A-Z][A-Za-z]+) ")
_BEFORE_START = frozenset({
    "FailedScheduling", "FailedCreatePodSandBox", "FailedMount", "FailedAttachVolume", "Failed", "ErrImagePull", "InspectFailed",
})  # fmt: skip
_OF_POD = re.compile(r"\bpod/\S+|^Name: +\S+")
_IMAGE = re.compile(r"\b[Ii]mage \"([^\"]+)\"")
_OF_PULL = re.compile(r"\b[Ii]mage \"|\bErrImagePull\b|\bImagePullBackOff\b")
_AGE = re.compile(r"(?<!\S)(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?(?<=\d[dhms])(?!\S)")
_ROW = re.compile(r"\s*(?:\S+ +)?(?P<pod>\S+) +\d+/\d+ +(?P<status>[A-Z]\S*) +\d+ +[(\d]")
_WELL = frozenset({"Running", "Completed", "Succeeded"})


def blank_recovered(lines: Sequence[Line]) -> Sequence[Line]:
    """Return the lines with what pods got over empty: events before a start, rows above a good one."""
    if not any(
        " Running " in line.text or " Completed " in line.text or "Started " in line.text for line in lines
    ):
        return lines
    over = {*_find_before_start(lines), *_find_above_well(lines)}
    return [replace(line, text="") if line.order in over else line for line in lines] if over else lines


def _find_before_start(lines: Sequence[Line]) -> list[int]:
    """Return the `order` of the events behind which their pod was started, its image pulled."""
    events, described = [], ""
    for line in lines:
        named = _OF_POD.search(line.text)
        if named and named[0].startswith("Name:"):
            described = named[0]
        elif found := _EVENT.match(line.text):
            events.append((line, found, named[0] if named else described))
    over = []
    ages: dict[str, int] = {}  # the least of a pod's starts behind which nothing warns
    warned, pulled = set[str](), set[tuple[str, str]]()
    for line, found, pod in reversed(events):
        image, age = _IMAGE.search(line.text), _read_age(line.text)
        if found["reason"] == "Pulled" and image:
            pulled.add((pod, image[1]))
        elif found["reason"] == "Started" and pod not in warned:
            ages[pod] = min(age, ages.get(pod, age))
        elif found["type"] == "Warning":
            warned.add(pod)
            of_start = found["reason"] != "Failed" or _OF_PULL.search(line.text)
            known = image is None or (pod, image[1]) in pulled
            if found["reason"] in _BEFORE_START and of_start and known and ages.get(pod, age + 1) <= age:
                over.append(line.order)
    return over


def _read_age(text: str) -> int:
    """Return the seconds since an event was seen last, 0 where it does not say."""
    found = _AGE.search(text)
    days, hours, minutes, seconds = (int(each or 0) for each in found.groups()) if found else (0, 0, 0, 0)
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def _find_above_well(lines: Sequence[Line]) -> list[int]:
    """Return the `order` of the rows of pods that a later row shows running or completed."""
    rows = [(line.order, found) for line in lines if (found := _ROW.match(line.text))]
    last = {found["pod"]: found["status"] for _, found in rows}
    return [order for order, found in rows if found["status"] not in _WELL and last[found["pod"]] in _WELL]
