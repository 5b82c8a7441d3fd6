"""What `gpulaunch explain` says of a signature or a notice."""

from preflight.diagnosis.result import COLLAPSE_CODE, NAN_CODE, SAID_CODE, USER_CODE, ZERO_CODE
from preflight.diagnosis.signatures.table import NOTICES, SIGNATURES, CausalDepth, Signature
from preflight.frozen import dataclass

STALLED_CODE = "S24"
DEPTHS = {
    CausalDepth.ROOT: "a first cause",
    CausalDepth.GENERAL: "a cause unless something deeper explains it",
    CausalDepth.ENDING: "only how a process ended",
    CausalDepth.VICTIM: "what another process's failure does to this one; never put before a cause",
}
SOURCES = {
    "run": "reproduced",
    "source": "the library's source",
    "thread": "a public thread",
    "known": "general knowledge",
}


@dataclass(frozen=True, slots=True)
class DerivedCause:
    """A code that is not a pattern of a line but a judgement over many."""

    code: str
    slug: str
    cause: str
    fix: str


_RISING = "float32 parameters with mixed precision (bf16 where the GPUs have it), a lower learning rate"
DERIVED_CAUSES: tuple[DerivedCause, ...] = (
    DerivedCause(USER_CODE, "user-exception", "an exception that is in no row: the first one, with its place", "see the traceback"),
    DerivedCause(SAID_CODE, "unknown", "an error that no row knows and no exception carries: the first one at the log's end, in its own words",
         "read the lines around it"),
    DerivedCause(NAN_CODE, "nan-loss", "logged losses or gradient norms are NaN or infinite, and stay so", _RISING),
    DerivedCause(ZERO_CODE, "nan-loss", "the loss is logged as 0.0 for ever: its steps were NaN, or no label counts", _RISING),
    DerivedCause(COLLAPSE_CODE, "nan-loss", "the loss scale collapsed: every step overflows and is skipped", _RISING),
    DerivedCause(STALLED_CODE, "stalled", "a running job logs no more steps (said by `run`, never by a log alone)",
         "gpulaunch stacks RUN shows what each rank executes"),
)  # fmt: skip
_CAUSES: tuple[Signature | DerivedCause, ...] = (*SIGNATURES, *DERIVED_CAUSES)


def list_signature_codes() -> tuple[str, ...]:
    """Return every code that a diagnosis can name, causes first."""
    return (*sorted({row.code for row in _CAUSES}), *(each.code for each in NOTICES))


def list_codes_of_class(slug: str) -> tuple[str, ...]:
    """Return the codes of a class of causes, () where none is called so."""
    return tuple(dict.fromkeys(row.code for row in _CAUSES if row.slug == slug))


def explain_signature(code: str) -> str | None:
    """Return the text of a code, None when it is not a signature's and no notice's."""
    row = next((row for row in _CAUSES if row.code == code), None)
    if isinstance(row, DerivedCause):
        return f"{code}: {row.cause}\n({row.slug})\n\nFix: {row.fix}\n"
    if row is not None:
        return f"{code}: {row.cause}\n({row.slug}, {DEPTHS[row.depth]})\n\nFix: {row.fix}\nSource: {SOURCES[row.source]}\n"
    notice = next((each for each in NOTICES if each.code == code), None)
    if notice is not None:
        what, line = "may be ignored" if notice.safe else "shows a fault", notice.pattern.pattern
        return f"{code}: {notice.verdict}\n(a line that {what})\n\nThe line matches: {line}\n"
    return None
