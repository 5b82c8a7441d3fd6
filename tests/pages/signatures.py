"""docs/signatures.md: what `gpulaunch diagnose` knows, made from the rows."""

from preflight.diagnosis.explain import DEPTHS, DERIVED_CAUSES, SOURCES
from preflight.diagnosis.signatures.table import NOTICES, SIGNATURES, Signature

_INTRODUCTION = (
    "Causes, by code. `class` is what `--json` calls them. A message that no row words is taken by what it is"
    " about, by the module that raised it or by CUDA's status number;"
    " such a cause is likely, never certain.\n"
)


def render_page() -> str:
    """Return docs/signatures.md."""
    rows = sorted(SIGNATURES, key=lambda row: (len(row.code), row.code))
    parts = [
        "<!-- Made by `python -m tests.pages`; edit the rows in preflight/diagnosis/signatures/. -->\n",
        "# What `gpulaunch diagnose` knows\n",
        _INTRODUCTION,
        "| code | class | cause | fix |\n|---|---|---|---|",
        *(
            f"| [{row.code}](#{row.code.lower()}) | {row.slug} | {_cell(row.cause)} | {_cell(row.fix)} |"
            for row in rows
        ),
        *(
            f"| {made.code} | {made.slug} | {_cell(made.cause)} | {_cell(made.fix)} |"
            for made in DERIVED_CAUSES
        ),
        "\nLines that alarm, and whether they may be ignored.\n",
        "| code | may be ignored | verdict |\n|---|---|---|",
        *(
            f"| {each.code} | {'yes' if each.safe else '**no**'} | {_cell(each.verdict)} |"
            for each in NOTICES
        ),
        "",
        *(_section(row) for row in rows),
    ]
    return "\n".join(parts)


def _section(row: Signature) -> str:
    return (
        f"## {row.code}\n\n**{row.slug}**: {row.cause}.\n\n{DEPTHS[row.depth].capitalize()}."
        f"\n\n*Fix:* {row.fix}.\n\n*Source:* {SOURCES[row.source]}.\n"
    )


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
