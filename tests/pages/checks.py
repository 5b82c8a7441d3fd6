"""docs/checks/: pages made from the checks' own docstrings, so that they cannot say something else."""

from itertools import groupby

from launcher.error_codes import list_host_codes
from launcher.errors import HOST_FIXES
from preflight.checks.explain import render_heading
from preflight.checks.registry import Check, parse_family
from preflight.checks.runner import load_checks

_NOTE = "<!-- Made by `python -m tests.pages`; edit the docstrings in preflight/checks/. -->\n"


def render_pages() -> dict[str, str]:
    """Return {file name: text}: an index, one page per family of codes, one for hosts that cannot be used."""
    families = {
        family: list(checks)
        for family, checks in groupby(
            sorted(load_checks().values(), key=lambda check: parse_family(check.code)),
            lambda check: parse_family(check.code),
        )
    }
    found = {f"{family}.md": _page(family, checks) for family, checks in families.items()}
    found["HOST.md"] = _host_page()
    found["README.md"] = _index()
    return dict(sorted(found.items()))


def _index() -> str:
    lines = [_NOTE, "# Checks", "", "| code | verdict | gate | true when it passes |", "|---|---|---|---|"]
    for check in load_checks().values():
        link = f"[{check.code}]({parse_family(check.code)}.md#{check.code.lower()})"
        lines.append(f"| {link} | {check.severity.value} | {'yes' if check.gate else ''} | {check.title} |")
    for code, kind in list_host_codes().items():
        title = (kind.__doc__ or "").strip().splitlines()[0]
        lines.append(f"| [{code}](HOST.md#{code.lower()}) | critical | yes | *fails when:* {title} |")
    return "\n".join(lines) + "\n"


def _page(family: str, checks: list[Check]) -> str:
    parts = [_NOTE, f"# {family}\n"]
    for check in checks:
        _, _, rest = check.text.partition("\n")
        said = render_heading(check.severity.value, check.scope, gate=check.gate, gpu_only=check.gpu_only)
        body = rest.strip().replace("\nSource:", "\n\n*Source:*").replace("\nFix:", "\n\n*Fix:*")
        parts.append(
            f"## {check.code}\n\n**{check.title}**\n\n{said[0].upper()}{said[1:]}.\n\n{_tidy(body)}\n"
        )
    return "\n".join(parts)


def _tidy(body: str) -> str:
    """Leave one empty line at most between paragraphs."""
    while "\n\n\n" in body:
        body = body.replace("\n\n\n", "\n\n")
    return body


def _host_page() -> str:
    parts = [_NOTE, "# HOST\n", "A host that could not be judged at all; always critical.\n"]
    for code, kind in list_host_codes().items():
        text = (kind.__doc__ or "").strip()
        fix = f"\n*Fix:* {HOST_FIXES[code]}\n" if code in HOST_FIXES else ""
        parts.append(f"## {code}\n\n**{text}**\n{fix}")
    return "\n".join(parts)
