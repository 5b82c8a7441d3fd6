"""All script rules, for `gpulaunch explain` and the documentation."""

from preflight.script import (
    rules_models,
    rules_placement,
    rules_precision,
    rules_reading,
    rules_scaling,
    rules_versions,
)
from preflight.script.rules import RULES

MODULES = (rules_models, rules_reading, rules_precision, rules_scaling, rules_placement, rules_versions)


def rule_codes() -> tuple[str, ...]:
    """Return every rule's code, in order."""
    return tuple(sorted(RULES))


def rule_text(code: str) -> str:
    """Return a rule's title, reason and source."""
    return RULES[code].text


def explain_rule(code: str) -> str:
    """Return a rule's code, title, reason and source."""
    return (
        f"{code}: {rule_text(code).rstrip()}\n\nSilence it on one line with `# gpulaunch: ignore[{code}]`.\n"
    )
