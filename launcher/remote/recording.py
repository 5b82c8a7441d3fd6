"""Facts of a host in a file: judged again anywhere, and a test case as they are."""

import codecs
import json
import math
from pathlib import Path
from typing import Any

from launcher.errors import BadInput
from launcher.local.gzip_data import MAX_BYTES, DamagedGzipError, TooLargeError, decompress_gzip, read_within
from launcher.remote.anonymize import anonymize_facts
from launcher.version import read_version
from preflight import regex as re
from preflight.checks.finding import Finding
from preflight.errors import MalformedFacts
from preflight.facts.host import HostFacts
from preflight.facts.json_codec import decode, encode

SCHEMA = "gpulaunch.record/1"
_SMI = re.compile(r"^\| NVIDIA-SMI \d|^=+NVSMI LOG=|<nvidia_smi_log>|^GPU \d+: .*\(UUID: ", re.MULTILINE)
_SCHEMA_KEY = re.compile(r'"schema": ?"gpulaunch\.record/')
_FIX = "gpulaunch record HOST -o FILE writes a recording; --from-smi FILE reads what nvidia-smi printed"


def record_json(facts: HostFacts, findings: tuple[Finding, ...], *, masked: bool) -> dict[str, Any]:
    """Return the document of a recording; `findings` are what was said of these facts when they were read."""
    data = encode(facts)
    return {
        "schema": SCHEMA,
        "gpulaunch": read_version(),
        "masked": masked,
        "findings": [[finding.code, finding.severity.value, finding.subject] for finding in findings],
        "facts": anonymize_facts(data) if masked else data,
    }


def load_recording(path: Path) -> HostFacts:
    """Return the facts of a recording, or of bare facts. Raises BadInput naming the file."""
    try:
        with path.open("rb") as stream:
            data = read_within(stream, MAX_BYTES)
        document = _document(_text(data))
    except OSError as failure:
        raise BadInput(f"{path}: {failure.strerror}", _FIX) from None
    except RecursionError:
        raise BadInput(f"{path}: nested too deeply", _FIX) from None
    except TooLargeError as failure:
        raise BadInput(f"{path}: {failure}, so it is not a recording", _FIX) from None
    except _UnreadableError as failure:
        raise BadInput(f"{path}: {failure}", failure.fix) from None
    except ValueError as failure:  # not UTF-8, or not JSON
        raise BadInput(f"{path}: not JSON: {failure}", _FIX) from None
    if not isinstance(document, dict):
        raise BadInput(f"{path}: expected an object, as gpulaunch record writes it", _FIX)
    schema = document.get("schema", SCHEMA)
    if schema != SCHEMA:
        newer = isinstance(schema, str) and re.fullmatch(r"gpulaunch\.record/([2-9]|\d\d+)", schema)
        fix = (
            f"gpulaunch {document.get('gpulaunch', 'of a newer version')} wrote it, and reads it"
            if newer
            else _FIX
        )
        raise BadInput(f"{path}: schema {schema!r}; expected {SCHEMA!r}", fix)
    try:
        facts = decode(HostFacts, document.get("facts", document))
        _check_gpus(facts)
    except (MalformedFacts, RecursionError) as failure:
        raise BadInput(f"{path}: does not hold facts: {failure}", _FIX) from None
    return facts


class _UnreadableError(ValueError):
    """A file that holds no JSON, or JSON that says two things; `fix` says what to do."""

    def __init__(self, problem: str, fix: str = _FIX) -> None:
        super().__init__(problem)
        self.fix = fix


def _text(data: bytes) -> str:
    """Return the text of a file in any encoding that editors and shells choose. Raises ValueError."""
    try:
        data = decompress_gzip(data)
    except DamagedGzipError as damage:
        raise _UnreadableError(str(damage)) from None
    encoding = "utf-16" if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8-sig"
    if encoding != "utf-16" and b"\0" in data[:2]:  # of JSON the first character is one of ASCII
        encoding = "utf-16-be" if data.startswith(b"\0") else "utf-16-le"
    try:
        return data.decode(encoding)
    except UnicodeDecodeError:
        raise _UnreadableError("not a text") from None


def _document(text: str) -> Any:
    """Return the JSON of a text. Raises ValueError, with what is wrong where that can be known."""
    if not text.strip():
        raise _UnreadableError("empty")
    try:
        return json.loads(text, object_pairs_hook=_once_each, parse_float=_finite, parse_constant=_finite)
    except json.JSONDecodeError as failure:
        raise _explain(text, failure) or failure from None


def _explain(text: str, failure: json.JSONDecodeError) -> _UnreadableError | None:
    """Return what a text is that is not JSON, None where it is not known."""
    if _SMI.search(text):
        return _UnreadableError(
            "what nvidia-smi printed, and no recording", "gpulaunch preflight --from-smi FILE"
        )
    opened, behind = text.lstrip().startswith("{"), text[failure.pos :].strip()
    if failure.msg == "Extra data" and behind.startswith("{"):
        return _UnreadableError("holds several recordings", f"give each a file of its own; {_FIX}")
    if (opened and failure.msg == "Extra data") or (not opened and _SCHEMA_KEY.search(text)):
        return _UnreadableError(
            "holds other text beside a recording", f"leave only the object in the file; {_FIX}"
        )
    at_end = not behind or (behind.count("\n") <= 1 and not behind.endswith("}"))
    if opened and at_end:
        return _UnreadableError("cut: it ends within a value or an object", f"copy it again; {_FIX}")
    return None


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise _UnreadableError(f"{digits[:60]} is not a finite number")
    return number


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise _UnreadableError(f"has {twice[:60]!r} twice in one object", "take one of the two out")
    return found


def _check_gpus(facts: HostFacts) -> None:
    """Raise MalformedFacts for GPUs that no host has: two of one number, more memory in use than there is."""
    seen: set[int] = set()
    for place, gpu in enumerate(facts.known_gpus):
        if gpu.index in seen:
            raise MalformedFacts(f"$.gpus[{place}].index: {gpu.index} is that of another GPU too")
        seen.add(gpu.index)
        used = gpu.used_mib or 0
        total = used if gpu.total_mib is None else gpu.total_mib
        if not 0 <= used <= total:
            raise MalformedFacts(f"$.gpus[{place}].memory: {used} MiB in use of {total} MiB")
