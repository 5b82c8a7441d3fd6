"""Deep checks as a document, schema gpulaunch.deep/1, and as text: values, strips, matrices, findings."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from launcher.exit_codes import ExitCode
from launcher.report.trend import Trend
from launcher.safe_json import read_mappings, read_number
from launcher.text import count_noun, group_alike, one_line, spell_duration
from preflight.checks.finding import Finding, encode_finding, exit_code
from preflight.deep.comparison import Reading, read_values
from preflight.deep.margins import median
from preflight.deep.matrix import PairMatrix, build_node_matrices, build_peer_matrices
from preflight.deep.measurements import DeepRun, RankDeep
from preflight.facts.json_codec import encode
from preflight.frozen import dataclass

SCHEMA = "gpulaunch.deep/1"
DOCUMENT = "deep.json"  # the file that keeps it, beside the local logs of the run that measured
_STRIP = 30
_NAME = 28
_MOST_ROWS = 256


@dataclass(frozen=True, slots=True)
class DeepReport:
    """A run of the deep checks, judged: what text, JSON and pages show."""

    run: DeepRun
    readings: tuple[Reading, ...]
    nodes: tuple[PairMatrix, ...]
    peers: tuple[PairMatrix, ...]
    findings: tuple[Finding, ...]

    @classmethod
    def of(cls, run: DeepRun, findings: tuple[Finding, ...]) -> "DeepReport":
        """Return the report of a run and its findings."""
        return cls(run, read_values(run), build_node_matrices(run), build_peer_matrices(run), findings)

    @property
    def exit_code(self) -> int:
        """0 when all is as expected, 130 where the run was stopped, else 1."""
        return ExitCode.INTERRUPTED if self.run.stopped else exit_code(self.findings)


def encode_deep(report: DeepReport) -> dict[str, Any]:
    """Return the document."""
    run = report.run
    return {
        "schema": SCHEMA,
        "run_id": run.run_id,
        "seconds": round(run.seconds, 1),
        "ended": run.ended,
        "ranks": [_encode_rank(rank) for rank in run.ranks],
        "values": [_encode_reading(reading) for reading in report.readings],
        "matrices": [_encode_matrix(matrix) for matrix in (*report.nodes, *report.peers)],
        "unmeasured": encode(run.unmeasured),
        "findings": [encode_finding(finding) for finding in report.findings],
    }


def _encode_rank(rank: RankDeep) -> dict[str, Any]:
    facts, products = rank.facts, rank.matmul
    return {
        "rank": rank.rank,
        "host": rank.host,
        "gpu": rank.gpu,
        "uuid": facts.uuid if facts else "",
        "model": facts.model if facts else "",
        "torch": facts.torch if facts else "",
        "memory_tested_bytes": rank.memory.bytes if rank.memory else None,
        "bad_words": rank.memory.bad_words if rank.memory else None,
        "digests": list(rank.digest.digests) if rank.digest else [],
        "digests_stable": rank.digest.stable if rank.digest else None,
        "sensors": [list(sample) for sample in products.sensors] if products else [],
        "throttle": list(products.throttle) if products else [],
        "world_latency_us": median(rank.world.latency_us) if rank.world and rank.world.latency_us else None,
        "failed": dict(rank.failed),
        "waits": encode(rank.waits),
    }


def _encode_reading(reading: Reading) -> dict[str, Any]:
    expected = reading.expected
    return {
        "code": reading.code,
        "name": reading.name,
        "label": reading.label,
        "rank": reading.rank,
        "host": reading.host,
        "gpu": reading.gpu,
        "value": reading.value,
        "unit": reading.unit,
        "samples": list(reading.samples),
        "expected": None if expected is None else expected.value,
        "expected_from": None if expected is None else expected.source,
        "floor": None if expected is None else expected.floor,
        "verdict": reading.verdict if expected is not None else "new",
        "former": [list(point) for point in reading.former.last] if reading.former is not None else [],
    }


def _encode_matrix(matrix: PairMatrix) -> dict[str, Any]:
    verdict = matrix.verdict
    return {
        "title": matrix.title,
        "members": list(matrix.members),
        "pairs": [
            {"between": list(pair), "gbs": rate, "latency_us": matrix.latencies.get(pair)}
            for pair, rate in matrix.rates.items()
        ],
        "reference_gbs": verdict.reference,
        "slow_members": list(verdict.nodes),
        "slow_links": [list(pair) for pair in verdict.links],
        "slow_unresolved": [list(pair) for pair in verdict.unresolved],
        "unclear": [list(pair) for pair in verdict.noisy],
    }


def render_deep_report(document: Mapping[str, Any], *, ascii_only: bool = False) -> Iterator[str]:
    """Yield a document as text. It may come from a file, so nothing of it is trusted."""
    ranks = _rows(document, "ranks")
    ended = one_line(str(document.get("ended") or ""))
    took = spell_duration(read_number(document.get("seconds")) or 0.0)
    yield f"deep checks: {count_noun(len(ranks), 'rank')} in {took}{f'; {ended}' if ended else ''}"
    values = group_alike((str(each.get("label")), each) for each in _rows(document, "values"))
    for label, rows in values.items():
        yield from _value_lines(label, rows, ascii_only=ascii_only)
    for matrix in _rows(document, "matrices"):
        yield from _matrix_lines(matrix)


def render_unmeasured(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield what was not measured, where DEEP001 of the same document is not shown beside it."""
    for each in _rows(document, "unmeasured"):
        gpu = "" if each.get("gpu") is None else f" GPU {each.get('gpu')}"
        yield one_line(f"not measured: {each.get('host')}{gpu}: {each.get('why')}", 300)


def _value_lines(label: str, rows: Sequence[Mapping[str, Any]], *, ascii_only: bool) -> Iterator[str]:
    every = [number for row in rows for number in _numbers(row.get("samples"))]
    middle = median(numbers) if (numbers := [read_number(row.get("value")) or 0.0 for row in rows]) else 0.0
    unit = one_line(str(rows[0].get("unit")), 12)
    yield one_line(f"{label}: median {middle:.4g} {unit}", 120)
    low, high = (min(every), max(every)) if every else (0.0, 0.0)
    for row in rows:
        name = f"{row.get('host')}" + (
            f" gpu{row['gpu']}" if row.get("gpu") is not None else f" rank {row.get('rank')}"
        )
        value, expected = read_number(row.get("value")), read_number(row.get("expected"))
        strip = strip_plot(_numbers(row.get("samples")), low, high, middle, ascii_only=ascii_only)
        words = "nothing to compare with yet"
        if expected:
            words = f"{(value or 0.0) / expected:.0%} of {one_line(str(row.get('expected_from')), 20)}"
        verdict = str(row.get("verdict"))
        mark = "" if verdict in ("ok", "new") else f"  {one_line(verdict.upper(), 12)}"
        yield f"  {one_line(name, _NAME):<{_NAME}} {value or 0.0:>9.4g}  {strip}  {words}{mark}"
        if trend := Trend.of(row.get("former"), value or 0.0):
            yield f"  {'':<{_NAME}} {'':>9}  {trend.line(ascii_only=ascii_only)}"


def strip_plot(
    samples: Sequence[float], low: float, high: float, middle: float, *, ascii_only: bool = False
) -> str:
    """Return samples as dots from `low` to `high`, more of them heavier, and a bar at the median of all."""
    if not samples or not high > low:
        return " " * _STRIP
    marks = ".:#" if ascii_only else "·•●"
    counts = [0] * _STRIP
    for sample in samples:
        counts[_place(sample, low, high)] += 1
    cells = [" " if not count else marks[min(2, count * 6 // len(samples))] for count in counts]
    at = _place(middle, low, high)
    if cells[at] == " ":
        cells[at] = "|" if ascii_only else "│"
    return "".join(cells)


def _place(value: float, low: float, high: float) -> int:
    return max(0, min(_STRIP - 1, int((value - low) / (high - low) * (_STRIP - 1) + 0.5)))


def _matrix_lines(matrix: Mapping[str, Any]) -> Iterator[str]:
    members = [one_line(str(name), 20) for name in matrix.get("members") or ()][:_MOST_ROWS]
    found = {}
    for pair in _rows(matrix, "pairs"):
        between = pair.get("between")
        if isinstance(between, list) and len(between) == 2:
            one, other = (str(name) for name in between)
            found[one, other] = found[other, one] = pair
    yield one_line(f"{matrix.get('title')}: GB/s one way; us between two", 120)
    width = max([8, *(len(name) + 1 for name in members)])
    yield "  " + " " * width + "".join(f"{at:>9}" for at in range(len(members)))
    for at, name in enumerate(members):
        cells = []
        for to, other in enumerate(members):
            pair = found.get((name, other), {})
            number = read_number(pair.get("gbs" if to < at else "latency_us"))
            cells.append(f"{'-' if number is None else f'{number:.3g}':>9}" if to != at else f"{'.':>9}")
        yield f"  {name:<{width}}" + "".join(cells)


def _rows(document: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    return read_mappings(document.get(key))[: _MOST_ROWS * 16]


def _numbers(values: object) -> list[float]:
    if not isinstance(values, list):
        return []
    return [number for value in values if (number := read_number(value)) is not None]
