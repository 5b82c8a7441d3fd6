"""docs/configuration.md's tables, from the tables that drive validation."""

from launcher.config.before_stop_options import BEFORE_STOP_KEYS
from launcher.config.expect_options import EXPECT_KEYS
from launcher.config.restart_options import RESTART_KEYS
from launcher.config.schema import CONFIG_KEYS, HOST_KEYS, INVENTORY_KEYS
from launcher.config.slurm_options import SLURM_KEYS
from launcher.config.sync_options import SYNC_KEYS
from launcher.config.value_types import Field, FieldType
from launcher.durations import EXPECTED, format_duration, parse_duration


def render_reference() -> str:
    """Return the Markdown tables of docs/configuration.md."""
    parts = [
        ("hosts.yaml", INVENTORY_KEYS),
        ("A host (and `defaults`)", HOST_KEYS),
        ("`expect` of a host", EXPECT_KEYS),
        ("A run config", CONFIG_KEYS),
        ("`sync` of a run config", SYNC_KEYS),
        ("`restart` of a run config", RESTART_KEYS),
        ("`before_stop` of a run config", BEFORE_STOP_KEYS),
        ("`slurm` of a run config", SLURM_KEYS),
    ]
    return "\n".join(_section(title, keys) for title, keys in parts)


def _section(title: str, keys: tuple[Field, ...]) -> str:
    rows = [
        f"## {title}",
        "",
        "| key | what | expected | default | example |",
        "| --- | --- | --- | --- | --- |",
    ]
    for key in keys:
        default = f"`{_shown(key, key.default)}`" if key.default else ""
        example = f"`{key.name}: {_shown(key, key.example)}`"
        rows.append(f"| `{key.name}` | {key.doc} | {_cell(key.kind)} | {default} | {example} |")
    return "\n".join([*rows, ""])


def _shown(key: Field, text: str) -> str:
    """Return a value as a person types it: 7200.0 seconds are 2h."""
    seconds = parse_duration(text) if key.kind.expected == EXPECTED and text != "0" else None
    return text if seconds is None else format_duration(seconds)


def _cell(kind: FieldType) -> str:
    return kind.expected.replace("|", "\\|")
