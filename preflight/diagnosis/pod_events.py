"""Events of a pod that kept it from its start for a while, as kubectl lists them. Pure."""

from collections.abc import Sequence
from dataclasses import replace

from preflight import regex as re
from preflight.diagnosis.lines import Line

_EVENT = re.compile(r"\s*(?:\S+ +)?(?P<type>Normal|Warning) +(?P<reason>[A-Z][A-Za-z]+) ")
_BEFORE_START = frozenset({
    "FailedScheduling", "FailedCreatePodSandBox", "FailedMount", "FailedAttachVolume", "Failed", "ErrImagePull", "InspectFailed",
})  # fmt: skip
_OF_POD = re.compile(r"\bpod/\S+")
_IMAGE = re.compile(r"\b[Ii]mage \"([^\"]+)\"")


def blank_recovered(lines: Sequence[Line]) -> Sequence[Line]:
    """Return the lines with those events empty behind which their pod was started, its image pulled."""
    if not any("Started " in line.text and "Normal " in line.text for line in lines):
        return lines
    events = [(line, found) for line in lines if (found := _EVENT.match(line.text))]
    kept = list(lines)
    for place, (line, found) in enumerate(events):
        if found["type"] == "Normal" or found["reason"] not in _BEFORE_START:
            continue
        pod, image = _OF_POD.findall(line.text)[:1], _IMAGE.search(line.text)
        behind = [each for each in events[place + 1 :] if _OF_POD.findall(each[0].text)[:1] == pod]
        last = max((each[0].order for each in behind if each[1]["type"] == "Warning"), default=-1)
        started = [each for each in behind if each[1]["reason"] == "Started"]
        pulled = image is None or any(
            each[1]["reason"] == "Pulled" and image[1] in _IMAGE.findall(each[0].text) for each in behind
        )
        if pulled and any(each[0].order > last for each in started):
            kept[line.order] = replace(line, text="")
    return kept
