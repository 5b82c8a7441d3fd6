"""gpulaunch checks: the table of contents, for people and programs."""

import click

from launcher.commands._answer import json_option
from launcher.error_codes import list_host_codes
from launcher.exit_codes import ExitCode
from launcher.terminal.output import echo, echo_json
from preflight.checks.registry import Check
from preflight.checks.runner import load_checks


@click.command()
@json_option
def command(*, as_json: bool) -> None:
    """List every check of a preflight: code, verdict, and what is true when it passes."""
    checks = load_checks().values()
    if as_json:
        rows = [_json(check) for check in checks]
        echo_json({"schema": "gpulaunch.checks/1", "exit_code": int(ExitCode.OK), "checks": rows})
        return
    for check in checks:
        gate = "gate" if check.gate else ""
        echo(f"{check.code:<8} {check.severity.value:<8} {gate:<4} {check.title}")
    for code, kind in list_host_codes().items():
        title = (kind.__doc__ or kind.__name__).strip().splitlines()[0]
        echo(f"{code:<8} critical gate {title}")


def _json(check: Check) -> dict[str, object]:
    return {
        "code": check.code,
        "severity": check.severity.value,
        "gate": check.gate,
        "scope": check.scope,
        "gpu_only": check.gpu_only,
        "title": check.title,
        "facts": list(check.needs),
    }
