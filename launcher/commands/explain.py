"""gpulaunch explain CODE."""

from difflib import get_close_matches

import click

from launcher.errors import BadInput
from launcher.hostcodes import explain_host, host_codes
from preflight.explain import explanation
from preflight.registry import table
from preflight.script.catalogue import explain_rule, rule_codes


@click.command()
@click.argument("codes", nargs=-1, required=True, metavar="CODE...")
def command(codes: tuple[str, ...]) -> None:
    """Say what a finding's CODE means, why it matters, how to fix it, and where the fact comes from."""
    click.echo("\n".join(explain(code.upper()) for code in codes), nl=False)


def explain(code: str) -> str:
    """Return the text of one code. Raises BadInput for one that does not exist, with the nearest ones."""
    checks, hosts = table(), host_codes()
    if code in checks:
        return explanation(checks[code])
    if code in hosts:
        return explain_host(code, hosts[code])
    if code in rule_codes():
        return explain_rule(code)
    near = get_close_matches(code, [*checks, *hosts, *rule_codes()], n=3, cutoff=0.6)
    raise BadInput(
        f"no finding is called {code}",
        f"did you mean {', '.join(near)}?" if near else "gpulaunch checks lists them",
    )
