"""All script rules, for `gpulaunch explain` and the documentation."""

from preflight.script import rules_models, rules_placement, rules_precision, rules_scaling, rules_versions
from preflight.script.lint import P120_TITLE
from preflight.script.rules import RULES

MODULES = (rules_models, rules_precision, rules_scaling, rules_placement, rules_versions)

_P120 = f"""{P120_TITLE}

Ranks on unlike GPUs then train in different precisions. Nothing raises: one rank's gradients are scaled by
65536, the other's are not, and the weights drift apart. gpulaunch decides once, for all ranks.
Source: reproduced on two gloo ranks with torch 2.13.
"""


def rule_codes() -> tuple[str, ...]:
    """Return every rule's code, in order."""
    return tuple(sorted((*RULES, "P120")))


def rule_text(code: str) -> str:
    """Return a rule's title, reason and source."""
    return _P120 if code == "P120" else RULES[code].text


def explain_rule(code: str) -> str:
    """Return a rule's code, title, reason and source."""
    return (
        f"{code}: {rule_text(code).rstrip()}\n\nSilence it on one line with `# gpulaunch: ignore[{code}]`.\n"
    )
