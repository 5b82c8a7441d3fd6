"""What ran: the version, the edits and the content of the tree that a run was started from."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from launcher.sync.git import GitState
from launcher.sync.sync import HostSync
from launcher.sync.tree import SourceTree
from preflight.facts.json_codec import encode
from preflight.facts.redaction import redact_diff

SCHEMA = "gpulaunch.source/1"
FILE = "source.json"


def encode_source(tree: SourceTree, version: GitState, hosts: Mapping[str, HostSync]) -> dict[str, Any]:
    """Return the document source.json of a run, schema gpulaunch.source/1."""
    return {
        "schema": SCHEMA,
        "from": str(tree.root),
        "files": len(tree.entries),
        "bytes": tree.size,
        "content_sha256": tree.content_hash,
        "listed_by": "git" if tree.from_git else ".gitignore",
        **encode(replace(version, diff=redact_diff(version.diff))),
        "hosts": {name: _host(host) for name, host in hosts.items()},
    }


def render_source(document: Mapping[str, Any]) -> str:
    """Return the document as the text that is kept."""
    return json.dumps(document, indent=1) + "\n"


def _host(host: HostSync) -> dict[str, Any]:
    return {
        "directory": host.root,
        "same_as": host.same_as,
        "sent_files": host.done.written,
        "sent_bytes": host.sent,
        "deleted": len(host.done.deleted),
        "seconds": round(host.seconds, 3),
    }
