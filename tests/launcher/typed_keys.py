"""Options of `gpulaunch run` that stand for keys of a run config, as the command hands them on."""

from launcher.commands.run import command
from launcher.config.config_overrides import TypedKey


def typed(**values: str) -> dict[str, TypedKey]:
    """Return the keys that options set, by the names of these: `typed(port="29600")`."""
    words = [word for name, value in values.items() for word in (f"--{name.replace('_', '-')}", value)]
    with command.make_context("run", [*words, "x.py"]) as context:
        keys: dict[str, TypedKey] = context.params["keys"]
    return keys
