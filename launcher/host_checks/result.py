"""What a preflight found, and what a launch on its hosts would use."""

from dataclasses import field

from launcher.config.inventory import HostEntry
from launcher.errors import HostError
from launcher.exit_codes import ExitCode
from launcher.text import group_alike
from preflight.checks.finding import Finding, exit_code
from preflight.facts.host import HostFacts, Reach
from preflight.facts.script import ScriptAnalysis
from preflight.frozen import dataclass
from preflight.job import Job


@dataclass(frozen=True, slots=True)
class LaunchPreview:
    """What a launch on these hosts would take; `problem` says why none is possible, `fix` what to do then."""

    precision: str = ""
    why_precision: str = ""
    main_port: int = 0
    world_size: int = 0
    problem: str = ""
    fix: str = ""


@dataclass(frozen=True, slots=True)
class PreflightResult:
    """Everything a preflight found. `job` has its GPU request settled ("auto" is "all" or "none")."""

    job: Job
    entries: tuple[HostEntry, ...]
    facts: dict[str, HostFacts]
    errors: dict[str, HostError]
    reach: tuple[Reach, ...]
    findings: tuple[Finding, ...]
    seconds: float
    would_use: LaunchPreview | None = None
    not_collected: tuple[str, ...] = ()  # checks that this source holds no facts for
    script: ScriptAnalysis | None = None  # as it lies on the main host, or will
    stopped: bool = False  # its deep checks were, by a person or a scheduler
    # Set when first asked.
    _by_host: dict[str, tuple[Finding, ...]] = field(init=False, compare=False, repr=False)

    @property
    def exit_code(self) -> int:
        """0 when every host may be called fine, 130 when its deep checks were stopped, 1 otherwise."""
        return ExitCode.INTERRUPTED if self.stopped else exit_code(self.findings)

    def list_findings(self, host: str) -> tuple[Finding, ...]:
        """Return the findings that are about one host, alone or with others."""
        try:
            by_host = self._by_host
        except AttributeError:
            by_host = group_alike((name, finding) for finding in self.findings for name in finding.hosts)
            object.__setattr__(self, "_by_host", by_host)
        return by_host.get(host, ())
