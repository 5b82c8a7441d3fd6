"""What lint says of a script: faults with their places, and what was not judged."""

from collections.abc import Iterable

from preflight.facts.script import CodeLocation
from preflight.frozen import dataclass
from preflight.script.rules.registry import Level


@dataclass(frozen=True, slots=True)
class LintFinding:
    """One fault of a script. `title` is what is wrong in general, `message` what is wrong at this place."""

    code: str
    level: Level
    place: CodeLocation
    title: str
    message: str
    fix: str
    related: tuple[CodeLocation, ...] = ()
    part_of: CodeLocation | None = None  # this is the other half of the fault that is reported at that place


@dataclass(frozen=True, slots=True)
class LintResult:
    """What reading a script found; `problems` is what could not be read, and so was not judged."""

    findings: tuple[LintFinding, ...]
    problems: tuple[str, ...]
    files: tuple[str, ...]
    read_alone: tuple[str, ...] = ()  # functions that nothing read calls; their findings say so

    @property
    def errors(self) -> int:
        """How many findings are errors."""
        return sum(finding.level is Level.ERROR for finding in self.findings)


def list_places(found: Iterable[LintFinding]) -> set[tuple[str, CodeLocation]]:
    """Return where which rules find something."""
    return {(item.code, item.place) for item in found}
