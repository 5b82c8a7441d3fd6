"""Answers of hosts as they come, for pipes and files: a line of text or of JSON for each host."""

import json
import time
from collections import Counter
from dataclasses import replace
from typing import Any

from launcher.config.inventory import HostEntry
from launcher.errors import GpulaunchError, HostError
from launcher.host_checks.evaluation import evaluate_facts
from launcher.host_checks.merged_findings import merge_findings
from launcher.host_checks.preflight_options import PreflightOptions
from launcher.host_checks.render_json import encode_host, encode_merged_finding
from launcher.host_checks.render_text import summarize_host
from launcher.host_checks.result import PreflightResult
from launcher.remote.agent import GatherResult
from launcher.terminal.output import echo, echo_json_text
from preflight.facts.host import HostFacts
from preflight.facts.json_codec import encode
from preflight.job import Job

HOST_SCHEMA = "gpulaunch.preflight-host/1"
SUMMARY_SCHEMA = "gpulaunch.preflight-summary/1"
_MOST_ALIKE = 20  # hosts named one by one that fail alike; the report counts them


class TextAnswers:
    """Prints a line for each host that has answered, or could not be used."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._codes = Counter[str]()

    def take_answer(self, entry: HostEntry, result: HostFacts | GpulaunchError) -> None:
        """Take one host's answer; called as it comes."""
        if isinstance(result, HostFacts):
            said = f"answered  {entry.name}: {summarize_host(result)}"
        else:
            said = f"unusable  {entry.name}: {result.code}"  # the report says why, and what to do
            self._codes[result.code] += 1
            if self._codes[result.code] > _MOST_ALIKE + 1:
                return
            if self._codes[result.code] > _MOST_ALIKE:
                said = f"unusable  further hosts (-v names all): {result.code}"
        echo(f"{said} ({time.monotonic() - self._started:.1f} s)")


class JsonLines:
    """Prints a line of JSON for each host, judged for itself, and one at the end for all together."""

    def __init__(self, job: Job, options: PreflightOptions, *, facts: bool) -> None:
        self._started = time.monotonic()
        self._job = job
        self._options = replace(options, as_one_launch=False)
        self._facts = facts

    def take_answer(self, entry: HostEntry, result: HostFacts | GpulaunchError) -> None:
        """Take one host's answer; called as it comes."""
        if isinstance(result, HostFacts):
            gathered = GatherResult({entry.name: result}, {})
        elif isinstance(result, HostError):
            gathered = GatherResult({}, {entry.name: result})
        else:
            return  # a mistake in the user's files: it ends the command with an error of its own
        judged = evaluate_facts((entry,), gathered, self._job, options=self._options)
        document = {
            "schema": HOST_SCHEMA,
            "host": entry.name,
            "seconds": round(time.monotonic() - self._started, 3),
            **encode_host(judged, entry.name, facts=self._facts),
        }
        echo_json_text(json.dumps(document))


def encode_preflight_summary(result: PreflightResult) -> dict[str, Any]:
    """Return the last line: what the lines of single hosts do not have."""
    shared = [each for each in merge_findings(result.findings) if len(each.finding.hosts) > 1]
    return {
        "schema": SUMMARY_SCHEMA,
        "exit_code": result.exit_code,
        "seconds": round(result.seconds, 3),
        "total_hosts": len(result.entries),
        "unreachable": list(result.errors),
        "findings": [encode_merged_finding(each) for each in shared],
        "would_use": None if result.would_use is None else encode(result.would_use),
    }
