"""The options of `gpulaunch preflight` as one value."""

from pathlib import Path

from launcher.commands._deep_options import DeepCommandOptions
from launcher.commands._host_options import Transport
from preflight.frozen import dataclass
from preflight.job import PrecisionRequest

_STDOUT = "-"


@dataclass(frozen=True, slots=True)
class PreflightCommandOptions(DeepCommandOptions):
    """The values of what `preflight` takes."""

    config: str | None
    gpus: str
    port: int | None
    precision: PrecisionRequest | None
    ignore: tuple[str, ...]
    separately: bool
    as_json: bool
    as_jsonl: bool
    facts: bool
    page: Path | None
    verbose: bool
    recordings: tuple[Path, ...]
    smi_files: tuple[Path, ...]
    transport: Transport | None
    prolog: bool
    deep: bool
    max_age: float | None  # seconds

    @property
    def is_document_alone(self) -> bool:
        """Whether standard output is for one document."""
        return self.as_json or self.as_jsonl or self.is_page_alone

    @property
    def is_page_alone(self) -> bool:
        """Whether standard output is for the page."""
        return str(self.page) == _STDOUT
