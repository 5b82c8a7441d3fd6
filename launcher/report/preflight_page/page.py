"""A preflight as one HTML file: it loads nothing, its script only sorts, and text of hosts stays text."""

import hashlib
import json
from base64 import b64encode
from collections.abc import Iterator, Mapping
from string import Template
from typing import Any

from launcher.config.config_search import templates_dir
from launcher.config.node_sets import fold_hosts
from launcher.host_checks.render_json import encode_preflight, find_worst_severity
from launcher.host_checks.result import PreflightResult
from launcher.report.html.escape import escape, format_clock, render_pairs, render_tiles
from launcher.report.preflight_page.deep_section import list_measured_hosts, render_deep
from launcher.report.preflight_page.differences import render_differences
from launcher.report.preflight_page.findings import build_code_sections, list_anchors, render_findings
from launcher.report.preflight_page.gpu_map import render_gpu_map
from launcher.report.preflight_page.heat_map import render_heat_map
from launcher.report.preflight_page.reach_matrix import render_reach
from launcher.text import count_noun
from preflight.checks.finding import Severity, blocks_launch
from preflight.facts.missing import Missing

_FOLDER = "preflight_page"
_BAD = (Severity.CRITICAL.value, Severity.UNKNOWN.value)


def render_preflight_page(
    result: PreflightResult, *, made_at: float, version: str, deep: Mapping[str, Any] | None = None
) -> str:
    """Return the page; `made_at` is in seconds since 1970, `deep` what the deep checks have measured."""
    folder = templates_dir() / _FOLDER
    style, script = ((folder / name).read_text(encoding="utf-8") for name in ("page.css", "sort.js"))
    sections = build_code_sections(result)
    parts = (
        _head(result),
        render_heat_map(result, list_anchors(sections), None if deep is None else list_measured_hosts(deep)),
        render_gpu_map(result),
        () if deep is None else render_deep(deep),
        render_findings(sections),
        render_differences(result),
        render_reach(result, measures_pairs=deep is not None),
        ("<h2>About this page</h2>", render_pairs(_about(result, made_at, version))),
    )
    policy = f"style-src {_hash_of(style)}; script-src {_hash_of(script)}"
    template = Template((folder / "page.html.tmpl").read_text(encoding="utf-8"))
    return template.substitute(
        title=escape(f"gpulaunch preflight of {fold_hosts(each.name for each in result.entries)}"),
        policy=f"default-src 'none'; {policy}; base-uri 'none'; form-action 'none'",
        style=style,
        script=script,
        body="\n".join(part for section in parts for part in section),
        document=embed_json(result, deep),
    )


def embed_json(result: PreflightResult, deep: Mapping[str, Any] | None = None) -> str:
    """Return what --json prints in a form that no text in it can end the element with."""
    document = encode_preflight(result) | ({} if deep is None else {"deep": deep})
    plain = json.dumps(document, separators=(",", ":"))  # ASCII: U+2028 and its like are escapes
    return plain.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def render_verdict(result: PreflightResult) -> str:
    """Return what a preflight concludes, in one sentence."""
    hosts = count_noun(len(result.entries), "host")
    stopping = {name for each in result.findings if blocks_launch(each) for name in each.hosts}
    if 1 < len(stopping) == len(result.entries):
        return f"Not ok: all {hosts} stop a launch."
    if stopping:
        verb = "stops" if len(stopping) == 1 else "stop"
        return f"Not ok: {len(stopping)} of {hosts} {verb} a launch: {_named(result, stopping)}."
    if result.exit_code == 0:
        return f"Ok: nothing stops a launch on {hosts}, and nothing was left unchecked."
    unknown = {
        name for name in _named_hosts(result) if find_worst_severity(result.list_findings(name)) in _BAD
    }
    return f"Not ok: nothing stops a launch, but not all could be checked on {_named(result, unknown)}."


def _named_hosts(result: PreflightResult) -> tuple[str, ...]:
    return tuple(entry.name for entry in result.entries)


def _named(result: PreflightResult, chosen: set[str]) -> str:
    return fold_hosts(name for name in _named_hosts(result) if name in chosen)


def _head(result: PreflightResult) -> Iterator[str]:
    yield "<h1>gpulaunch preflight</h1>"
    kind = "good" if result.exit_code == 0 else "wrong"
    yield f'<p class="verdict {kind}">{escape(render_verdict(result))}</p>'
    use = result.would_use
    if use is not None and use.problem:
        fix = f" Fix: {escape(use.fix)}" if use.fix else ""
        yield f"<p>No launch on these hosts: {escape(use.problem)}.{fix}</p>"
    elif use is not None:
        why = f" ({escape(use.why_precision)})" if use.why_precision else ""
        port = f", main port {use.main_port}" if use.world_size > 1 else ""
        ranks = count_noun(use.world_size, "rank")
        yield f"<p>A launch would use {ranks}, mixed precision {escape(use.precision)}{why}{port}.</p>"
    yield render_tiles(_tiles(result))


def _tiles(result: PreflightResult) -> Iterator[tuple[str, object]]:
    verdicts = [find_worst_severity(result.list_findings(name)) for name in _named_hosts(result)]
    yield "hosts ok", f"{sum(each not in _BAD for each in verdicts)} of {len(verdicts)}"
    for word in (*_BAD, "warning"):
        yield f"hosts {word}", verdicts.count(word)
    if result.job.wants_gpus:  # those of other jobs are not read
        yield "GPUs seen", sum(len(facts.known_gpus) for facts in result.facts.values())


def _about(result: PreflightResult, made_at: float, version: str) -> Iterator[tuple[str, object]]:
    yield "made", f"{format_clock(made_at)} by gpulaunch {version}"
    read = [
        facts.identity.now_unix for facts in result.facts.values() if not isinstance(facts.identity, Missing)
    ]
    if read:
        first, last = format_clock(min(read)), format_clock(max(read))
        yield "facts read", f"{first if first == last else f'{first} to {last}'}, by the clocks of the hosts"
    if result.not_collected:
        yield "not asked of this source", " ".join(result.not_collected)
    ignored = dict.fromkeys(each.code for each in result.findings if each.ignored)
    if ignored:
        yield "ignored", " ".join(ignored)
    yield "explanation of a code", "gpulaunch explain CODE"
    yield "for programs", "the element with the id gpulaunch-preflight holds what --json prints"


def _hash_of(content: str) -> str:
    """Return the source expression of a content security policy for exactly this text."""
    return f"'sha256-{b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"
