"""Facts of a host in a file: judged again anywhere, and a test case as they are."""

import json
from pathlib import Path
from typing import Any

from launcher.errors import BadInput
from launcher.remote.anonymize import anonymize
from launcher.version import version
from preflight.checks.finding import Finding
from preflight.errors import MalformedFacts
from preflight.facts.host import HostFacts
from preflight.facts.json_codec import decode, encode

SCHEMA = "gpulaunch.record/1"
MAX_BYTES = 64 << 20
_FIX = "gpulaunch record HOST -o FILE writes a recording; --from-smi FILE reads what nvidia-smi printed"


def record_json(facts: HostFacts, findings: tuple[Finding, ...], *, masked: bool) -> dict[str, Any]:
    """Return the document of a recording; `findings` are what was said of these facts when they were read."""
    data = encode(facts)
    return {
        "schema": SCHEMA,
        "gpulaunch": version(),
        "masked": masked,
        "findings": [[finding.code, finding.severity.value, finding.subject] for finding in findings],
        "facts": anonymize(data) if masked else data,
    }


def load_recording(path: Path) -> HostFacts:
    """Return the facts of a recording, or of bare facts. Raises BadInput naming the file."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise BadInput(f"{path}: larger than {MAX_BYTES >> 20} MiB, so it is not a recording", _FIX)
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as failure:
        raise BadInput(f"{path}: {failure.strerror}", _FIX) from None
    except RecursionError:
        raise BadInput(f"{path}: nested too deeply", _FIX) from None
    except ValueError as failure:  # not UTF-8, or not JSON
        raise BadInput(f"{path}: not JSON: {failure}", _FIX) from None
    if not isinstance(document, dict):
        raise BadInput(f"{path}: expected an object, as gpulaunch record writes it", _FIX)
    schema = document.get("schema", SCHEMA)
    if schema != SCHEMA:
        raise BadInput(f"{path}: schema {schema!r}; expected {SCHEMA!r}", _FIX)
    try:
        return decode(HostFacts, document.get("facts", document))
    except (MalformedFacts, RecursionError) as failure:
        raise BadInput(f"{path}: does not hold facts: {failure}", _FIX) from None
