"""gpulaunch explain CODE."""

from difflib import get_close_matches
from pathlib import Path

import click

from launcher.errors import BadInput
from launcher.guardcodes import GUARD_CODES, explain_guard
from launcher.hostcodes import explain_host, host_codes
from preflight.diagnosis.pages import explain_signature, page, signature_codes
from preflight.explain import explanation
from preflight.judging import table
from preflight.script.catalogue import explain_rule, rule_codes


@click.command()
@click.argument("codes", nargs=-1, metavar="CODE...")
@click.option(
    "--markdown",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write the documentation page of the causes of failures into FILE.",
)
def command(codes: tuple[str, ...], *, markdown: Path | None) -> None:
    """Say what the CODE of a finding or a cause means, why it matters, how to fix it, and its source."""
    if markdown is not None:
        markdown.write_text(page(), encoding="utf-8")
    elif not codes:
        raise click.UsageError("Missing argument 'CODE...'.")
    click.echo("\n".join(explain(code.upper()) for code in codes), nl=False)


def explain(code: str) -> str:
    """Return the text of one code. Raises BadInput for one that does not exist, with the nearest ones."""
    checks, hosts = table(), host_codes()
    if code in checks:
        return explanation(checks[code])
    if code in hosts:
        return explain_host(code, hosts[code])
    if code in GUARD_CODES:
        return explain_guard(code)
    if code in rule_codes():
        return explain_rule(code)
    told = explain_signature(code)
    if told is not None:
        return told
    known = [*checks, *hosts, *GUARD_CODES, *rule_codes(), *signature_codes()]
    near = get_close_matches(code, known, n=3, cutoff=0.6)
    raise BadInput(
        f"no finding is called {code}",
        f"did you mean {', '.join(near)}?" if near else "gpulaunch checks lists them",
    )
