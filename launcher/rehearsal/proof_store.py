"""The proof that is kept: what was rehearsed, and what of it has changed since."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from launcher.local.home import user_state_dir
from launcher.local.safe_paths import write_below
from launcher.planning.plan import ScriptFile
from preflight.facts.host import HostFacts
from preflight.facts.json_codec import encode
from preflight.facts.missing import Missing
from preflight.frozen import dataclass
from preflight.job import Job

SCHEMA = "gpulaunch.rehearsal/1"
VERSIONS = ("torch", "accelerate", "transformers", "peft", "trl", "deepspeed", "bitsandbytes")


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What a rehearsal's proof is about."""

    script: str  # sha256; "" when the script could not be read
    config: str
    hosts: tuple[str, ...]
    gpus: dict[str, tuple[str, ...]]
    versions: dict[str, dict[str, str]]


def fingerprint(job: Job, facts: Mapping[str, HostFacts], sent: ScriptFile | None) -> Fingerprint:
    """Return what identifies script, config, hosts and versions of a launch."""
    settings = {name: getattr(job, name) for name in _CONFIG_FIELDS}
    script = hashlib.sha256(sent.text.encode()).hexdigest() if sent else ""
    for host in facts.values():
        if not script and not isinstance(host.script, Missing):
            script = host.script.sha256
    return Fingerprint(
        script=script,
        config=hashlib.sha256(json.dumps(settings, sort_keys=True, default=str).encode()).hexdigest(),
        hosts=tuple(facts),
        gpus={name: tuple(str(gpu.uuid) for gpu in host.known_gpus) for name, host in facts.items()},
        versions={name: _versions(host) for name, host in facts.items()},
    )


_CONFIG_FIELDS = (
    *("script", "module", "args", "command", "engine", "gpus", "processes_per_host", "precision"),
    *("precision_args", "env", "workdir", "subdirectory"),
)


def _versions(host: HostFacts) -> dict[str, str]:
    if isinstance(host.python, Missing):
        return {}
    return {name: host.python.packages[name] for name in VERSIONS if name in host.python.packages}


def proof_path(config: Path) -> Path:
    """Return where the proof of a run config is kept: by its full path, in the user's state directory."""
    name = hashlib.sha256(str(config.resolve()).encode()).hexdigest()[:16]
    return user_state_dir() / "rehearsals" / f"{config.stem}-{name}.json"


def save_proof(config: Path, document: Mapping[str, Any]) -> None:
    """Write a rehearsal's document for later runs, unless it was stopped and says nothing. Raises OSError."""
    if document["run"]["verdict"] == "interrupted":
        return
    path = proof_path(config)
    write_below(path.parent, path.name, json.dumps(document, indent=1) + "\n")


def describe_proof(config: Path, now: Fingerprint) -> str:
    """Return one line on what a kept rehearsal says about this launch; "" when there is none."""
    try:
        document = json.loads(proof_path(config).read_text())
        before, when, proven = document["fingerprint"], str(document["when"]), document["proven"]
        changes = list(list_changes_since(before, now))
    except FileNotFoundError:
        return ""
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return "the kept rehearsal cannot be read; rehearse again"
    if not proven:
        return f"the rehearsal of {when} did not prove this run; gpulaunch rehearse shows what is not proven"
    if changes:
        return f"rehearsed {when}, but since then changed: {', '.join(changes)}; rehearse again"
    return f"rehearsed {when}, all proven, and nothing has changed since"


def list_changes_since(before: Mapping[str, Any], now: Fingerprint) -> tuple[str, ...]:
    """Return what is not as it was, in words."""
    found = []
    if before["script"] != now.script or not now.script:
        found.append("the script" if now.script else "the script (it cannot be read locally)")
    if before["config"] != now.config:
        found.append("the run config or its arguments")
    if tuple(before["hosts"]) != now.hosts:
        found.append("the hosts")
    elif encode(now.gpus) != before["gpus"]:
        found.append("the GPUs")
    for host, versions in now.versions.items():
        old = before["versions"].get(host, versions)
        found += [
            f"{name} on {host} ({old.get(name, 'none')} -> {versions.get(name, 'none')})"
            for name in sorted({*old, *versions})
            if old.get(name) != versions.get(name)
        ]
    return tuple(found)
