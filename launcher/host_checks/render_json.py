"""A preflight for programs: schema gpulaunch.preflight/1, documented in docs/json.md."""

from functools import partial
from typing import Any

from launcher.host_checks.merged_findings import MergedFinding, merge_findings
from launcher.host_checks.result import PreflightResult
from launcher.text import group_alike
from preflight.checks.finding import Finding, Severity, encode_finding
from preflight.facts.host import HostFacts
from preflight.facts.json_codec import encode
from preflight.facts.missing import Missing

SCHEMA = "gpulaunch.preflight/1"
_RISING = tuple(Severity)


def encode_preflight(result: PreflightResult, *, facts: bool = False) -> dict[str, Any]:
    """Return the document; `facts` adds everything that was read."""
    document = build_preflight_document(result, facts=facts)
    hosts = {name: make() for name, make in document["hosts"].items()}
    return {**document, "hosts": hosts, "reach": document["reach"]()}


def build_preflight_document(result: PreflightResult, *, facts: bool = False) -> dict[str, Any]:
    """Return the document with a function for each host and for what is reached, for `lay_out_pieces`."""
    merged = merge_findings(result.findings)
    among = [each.finding.hosts if len(each.finding.hosts) > 1 else () for each in merged]
    shared = group_alike((name, place) for place, names in enumerate(among) for name in names)

    use = result.would_use
    first_fix = next((error.fix for error in result.errors.values()), "")  # where no launch is possible

    def host(name: str) -> dict[str, Any]:
        return {**encode_host(result, name, facts=facts), "shared_findings": list(shared.get(name, ()))}

    return {
        "schema": SCHEMA,
        "exit_code": result.exit_code,
        "seconds": round(result.seconds, 3),
        "hosts": {entry.name: partial(host, entry.name) for entry in result.entries},
        "findings": [encode_merged_finding(each) for each in merged],
        "would_use": None if use is None else {**encode(use), "fix": use.fix or first_fix},
        "reach": partial(encode, result.reach),
        "not_collected": list(result.not_collected),
    }


def encode_merged_finding(merged: MergedFinding) -> dict[str, Any]:
    """Return equal findings of one host as one, with what they are about and their number."""
    return {**encode_finding(merged.finding), "subjects": list(merged.subjects), "count": merged.count}


def find_worst_severity(findings: tuple[Finding, ...]) -> str:
    """Return the weightiest severity of what was not ignored; "pass" when there is nothing."""
    severities = [finding.severity for finding in findings if not finding.ignored]
    return max(severities, key=_RISING.index, default=Severity.PASS).value


def encode_host(result: PreflightResult, name: str, *, facts: bool) -> dict[str, Any]:
    """Return what is known of one host; `findings` are those about it alone, the verdict counts all."""
    mine = result.list_findings(name)
    known = result.facts.get(name)
    shown: dict[str, Any] = {
        "verdict": find_worst_severity(mine),
        "reached": known is not None,
        "findings": [
            encode_merged_finding(each)
            for each in merge_findings(finding for finding in mine if len(finding.hosts) == 1)
        ],
        "summary": None if known is None else _summary(known),
        "reused": {} if known is None else dict(known.reused),
    }
    if facts and known is not None:
        shown["facts"] = encode(known)
    return shown


def _summary(facts: HostFacts) -> dict[str, Any]:
    """Return the few facts that people ask for first; null where they were not read."""
    packages = {} if isinstance(facts.python, Missing) else facts.python.packages
    return {
        "hostname": None if isinstance(facts.identity, Missing) else facts.identity.hostname,
        "driver": None if isinstance(facts.driver, Missing) else facts.driver.version,
        "python": None if isinstance(facts.python, Missing) else facts.python.version,
        "packages": {name: packages.get(name) for name in ("torch", "accelerate", "transformers")},
        "gpus": None
        if isinstance(facts.gpus, Missing)
        else [
            {
                "index": gpu.index,
                "uuid": _plain(gpu.uuid),
                "name": _plain(gpu.name),
                "capability": _plain(gpu.capability),
                "compute_mode": _plain(gpu.compute_mode),
                "memory_used_mib": gpu.used_mib,
                "memory_total_mib": gpu.total_mib,
            }
            for gpu in facts.known_gpus
        ],
        "missing": {
            name: encode(value)
            for name in HostFacts.__dataclass_fields__
            if isinstance(value := getattr(facts, name), Missing)
        },
    }


def _plain(value: object) -> Any:
    return None if isinstance(value, Missing) else encode(value)
