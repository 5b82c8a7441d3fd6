"""Findings for people: a line per host, equal findings folded over hosts, one line per unread fact."""

import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, groupby

from launcher.config.node_sets import fold_hosts, format_host_range
from launcher.host_checks.merged_findings import merge_findings
from launcher.host_checks.result import LaunchPreview, PreflightResult
from launcher.terminal.cell_width import Span, StyledLine
from launcher.text import count_alike, count_noun, group_alike, name_first, one_line, sanitize, spell_duration
from preflight import regex as re
from preflight.checks.finding import Finding, Severity
from preflight.checks.registry import NOT_HELD
from preflight.facts.gpu import Gpu
from preflight.facts.host import HostFacts
from preflight.facts.missing import Missing
from preflight.frozen import dataclass

_STYLES = {"pass": "32", "info": "36", "warning": "33", "unknown": "35", "critical": "1;31", "ignored": "2"}
_ORDER = (Severity.CRITICAL, Severity.UNKNOWN, Severity.WARNING, Severity.INFO)
_INFO_SHOWN = 3
_SUBJECTS_SHOWN = 8
_WIDTH = 9  # of the verdict column
_FIX_INDENT = _WIDTH + 3
_WORD = re.compile(r"[\w.-]+")
_SSH = re.compile(r"\bssh(?:-copy-id)? ")
_ADDRESS = re.compile(r"(?<![\w.:])\d{1,3}(?:\.\d{1,3}){3}(?![\w.])", re.ASCII)
_MOST_ROWS = 48  # two screens of a terminal
_COLUMNS = 120
_QUIET_SHOWN = 4


@dataclass(frozen=True, slots=True)
class FindingGroup:
    """Findings that say the same of several hosts, or of several subjects of one host."""

    severity: Severity
    codes: tuple[str, ...]
    hosts: tuple[str, ...]
    subjects: tuple[str, ...]
    message: str
    fix: str
    ignored: bool
    count: int = 1  # of what its check calls alike


def group_findings(findings: Iterable[Finding]) -> tuple[FindingGroup, ...]:
    """Join the same words on several hosts or subjects, and the checks that one unread fact hides."""
    by_words = group_alike((_kind(finding), finding) for finding in findings)
    folded = [_merge(group) for group in by_words.values()]
    return tuple(sorted(_same_hosts_and_words(folded), key=lambda f: (f.ignored, _ORDER.index(f.severity))))


def _kind(finding: Finding) -> tuple[object, ...]:
    unread = finding.message == NOT_HELD or (
        finding.severity is Severity.UNKNOWN and finding.message.startswith("not checked: ")
    )
    words = (finding.alike,) if finding.alike else _words(finding, unread=unread)
    return (finding.severity, finding.ignored, "" if unread else finding.code, *words)


def _words(finding: Finding, *, unread: bool) -> tuple[str, str, str]:
    typed = _SSH.search(finding.fix)  # the options and the address of each host are its own
    fix = (
        "" if unread else _without_name(finding.fix[: typed.start()] if typed else finding.fix, finding.hosts)
    )
    message = _without_name(finding.message, finding.hosts)
    return finding.subject, _ADDRESS.sub("ADDRESS", message) if _own_address(finding) else message, fix


def _own_address(finding: Finding) -> str:
    """Return the one address that a finding about a host which did not answer names, else ""."""
    if not finding.code.startswith("HOST"):
        return ""
    found = _ADDRESS.findall(finding.message)
    return found[0] if len(found) == 1 else ""


def _without_name(text: str, hosts: tuple[str, ...], instead: str = "HOST") -> str:
    """Replace the name of a finding's one host, so that equal findings of several hosts are equal."""
    if len(hosts) != 1 or hosts[0] not in text:
        return text
    if _WORD.fullmatch(hosts[0]):  # no pattern of its own for each host
        return _WORD.sub(lambda word: instead if word[0] == hosts[0] else word[0], text)
    return re.sub(rf"(?<![\w.-]){re.escape(hosts[0])}(?![\w.-])", lambda _: instead, text)


def _quoted_in_commands(fix: str, hosts: str) -> str:
    """Quote a range where a shell reads it: zsh refuses brackets that match no file."""
    command = rf"(\bgpulaunch [\w-]+ (?:--?[\w-]+ (?:[^\s-]\S* )?){{0,3}}?){re.escape(hosts)}"
    return re.sub(command, lambda typed: typed[1] + shlex.quote(hosts), fix)


def _merge(group: Sequence[Finding]) -> FindingGroup:
    first = group[0]
    hosts = tuple(dict.fromkeys(host for finding in group for host in finding.hosts))
    message, fix = first.message, first.fix
    if first.alike and len(group) > 1:
        message = f"{message} (and {len(group) - 1} more like it)"
    elif len(hosts) > 1 and len(first.hosts) == 1:
        message = _without_name(message, first.hosts, fold_hosts(hosts))
        addresses = tuple(dict.fromkeys(filter(None, map(_own_address, group))))
        message = _ADDRESS.sub(fold_hosts(addresses), message) if len(addresses) > 1 else message
        # ssh takes one host, our commands a range; they cannot read one that was cut
        takes_range = not _SSH.search(fix) and "..." not in fold_hosts(hosts)
        fix = _without_name(fix, first.hosts, fold_hosts(hosts) if takes_range else hosts[0])
        fix = _quoted_in_commands(fix, fold_hosts(hosts)) if takes_range else fix
    return FindingGroup(
        severity=first.severity,
        codes=tuple(dict.fromkeys(finding.code for finding in group)),
        hosts=hosts,
        subjects=_subjects(group) if len(hosts) == 1 else _subjects([first]),
        message=message,
        fix=fix,
        ignored=first.ignored,
        count=len(group) if first.alike else 1,
    )


def _subjects(group: Iterable[Finding]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(finding.subject for finding in group if finding.subject))


def _same_hosts_and_words(folded: Iterable[FindingGroup]) -> list[FindingGroup]:
    """Join what differs in its subject only: eight GPUs of one host with one trouble are one line."""
    joined: dict[tuple[object, ...], FindingGroup] = {}
    for item in folded:
        index = item.subjects[0].removeprefix("gpu") if item.subjects else ""
        fix = item.fix.replace(f"-i {index}", "-i INDEX") if index.isdigit() else item.fix
        key = (item.severity, item.codes, item.hosts, item.message, fix, item.ignored, item.count)
        seen = joined.get(key)
        subjects = () if seen is None else tuple(dict.fromkeys((*seen.subjects, *item.subjects)))
        joined[key] = replace(item, subjects=subjects, fix=fix) if subjects else item
    return [
        replace(item, fix=item.fix.replace("-i INDEX", f"-i {_indices(item)}")) for item in joined.values()
    ]


def _indices(item: FindingGroup) -> str:
    return ",".join(subject.removeprefix("gpu") for subject in item.subjects) or "INDEX"


def render_report(
    result: PreflightResult, *, verbose: bool = False, repeated: frozenset[Finding] = frozenset()
) -> Iterator[StyledLine]:
    """Yield the whole report for people, line by line: two screens at most, unless `verbose`.

    `repeated` are findings that the last line only counts: the user has seen them; `verbose` shows them.
    """
    repeated = frozenset() if verbose else repeated
    if verbose:
        for facts in result.facts.values():
            yield from _fact_lines(facts)
    quiet = [name for name in result.facts if not _notable(result.list_findings(name))]
    end = [
        *_would_use_lines(result),
        *render_reused_facts(result.facts.values()),
        _last_line(result, repeated),
    ]
    if result.not_collected:
        end.insert(0, f"not asked of this source: {' '.join(result.not_collected)}")
    folded = group_findings(finding for finding in result.findings if finding not in repeated)
    if verbose:
        yield from _quiet_lines(result, quiet)
        yield from chain.from_iterable(_lines_by_group(folded, format_host_range))
    else:
        yield from _fit(list(_quiet_lines(result, quiet)), folded, _MOST_ROWS - sum(map(_rows, end)))
    yield from end


def render_finding_list(findings: Iterable[Finding]) -> Iterator[StyledLine]:
    """Yield findings alone, all of them."""
    yield from chain.from_iterable(_lines_by_group(group_findings(findings), fold_hosts))


def _fit(quiet: list[StyledLine], folded: tuple[FindingGroup, ...], rows: int) -> Iterator[StyledLine]:
    """Yield what fits: all, else one group for each code, else as many of these as there is room for."""
    shown, more = _shortened(folded)
    lines = _lines_by_group(shown, fold_hosts)
    quiet_left = max(0, len(quiet) - _QUIET_SHOWN)
    if sum(map(_rows, [*quiet, *more, *(line for group in lines for line in group)])) > rows:
        quiet = quiet[:_QUIET_SHOWN]
        if quiet_left:
            quiet.append(f"and {quiet_left} more kinds of hosts without findings (-v shows them)")
        groups = group_alike(((item.ignored, item.severity, item.codes), item) for item in folded)
        shown, more = tuple(map(_joined, groups.values())), ()
        lines = [[*_finding_lines(item, fold_hosts)] for item in shown]
    yield from quiet
    rows -= sum(map(_rows, quiet)) + len(more) + 1
    for place, group in enumerate(lines):
        rows -= sum(map(_rows, group))
        if rows < 0:
            codes = dict.fromkeys(code for item in shown[place:] for code in item.codes)
            yield f"and, with -v: {' '.join(codes)}"
            return
        yield from group
    yield from more


def _rows(line: StyledLine) -> int:
    """Return how many rows of a terminal a line takes."""
    text = line if isinstance(line, str) else "".join(part for _, part in line)
    return max(1, -(-len(text) // _COLUMNS))


def _joined(group: Sequence[FindingGroup]) -> FindingGroup:
    first = group[0]
    if len(group) == 1:
        return first
    hosts = tuple(dict.fromkeys(host for item in group for host in item.hosts))
    subjects = tuple(dict.fromkeys(subject for item in group for subject in item.subjects))
    return replace(
        first,
        hosts=hosts,
        subjects=subjects if len(hosts) == 1 else (),
        message=f"{first.message} (and {count_noun(len(group) - 1, 'other')} of this code: -v shows them)",
        count=sum(item.count for item in group),
    )


def _shortened(folded: tuple[FindingGroup, ...]) -> tuple[tuple[FindingGroup, ...], tuple[str, ...]]:
    """Keep the first few pieces of information of a kind; what matters more is always shown in full."""
    shown: list[FindingGroup] = []
    left: dict[str, int] = {}
    alike: dict[str, int] = {}
    for item in folded:
        code = item.codes[0]
        alike[code] = alike.get(code, 0) + (item.severity is Severity.INFO)
        if item.severity is Severity.INFO and alike[code] > _INFO_SHOWN:
            left[code] = left.get(code, 0) + 1
        else:
            shown.append(item)
    return tuple(shown), tuple(f"and {count} more of {code} (-v shows them)" for code, count in left.items())


def _notable(findings: Iterable[Finding]) -> bool:
    return any(f.severity not in (Severity.INFO, Severity.PASS) and not f.ignored for f in findings)


def _quiet_lines(result: PreflightResult, quiet: list[str]) -> Iterator[StyledLine]:
    """Say "fine" once for hosts that look the same."""
    for text, names in group_alike((summarize_host(result.facts[name]), name) for name in quiet).items():
        yield [_label("pass"), ("", f" {fold_hosts(names)}: {text}")]


def summarize_host(facts: HostFacts) -> str:
    """Return "2x NVIDIA L40S, driver 595.80, torch 2.13.0, accelerate 1.15.0" of one host."""
    parts = []
    if facts.known_gpus:
        names = [g.name if not isinstance(g.name, Missing) else "unknown GPU" for g in facts.known_gpus]
        parts.append(count_alike(names))
    elif not isinstance(facts.gpus, Missing) or facts.gpus.code != "not-asked":
        is_known = not isinstance(facts.gpus, Missing) or facts.gpus.code in ("no-devices", "no-library")
        parts.append("no GPU" if is_known else "GPUs not read")
    if not isinstance(facts.driver, Missing):
        parts.append(f"driver {facts.driver.version}")
    if not isinstance(facts.python, Missing):
        packages = facts.python.packages
        parts += [f"{name} {packages.get(name, 'absent')}" for name in ("torch", "accelerate")]
    return one_line(", ".join(parts), 400)


def _lines_by_group(
    groups: Iterable[FindingGroup], names: Callable[[tuple[str, ...]], str]
) -> list[list[StyledLine]]:
    """Return the lines of each group; neighbours with one fix show it once, below the last of them."""
    lines: list[list[StyledLine]] = []
    for (fix, ignored), run in groupby(groups, key=lambda item: (item.fix, item.ignored)):
        alike = [[*_finding_lines(item, names, with_fix=False)] for item in run]
        if not ignored:
            alike[-1] += _fix_lines(fix, len(alike), _FIX_INDENT)
        lines += alike
    return lines


def _fix_lines(fix: str, findings: int, indent: int) -> Iterator[str]:
    label = f"fix of these {findings}" if findings > 1 else "fix"
    for place, line in enumerate(sanitize(fix).splitlines()):
        head = f"{label}: " if place == 0 else " " * len("fix: ")
        yield f"{'':{indent}}{head}{line}"


def _finding_lines(
    item: FindingGroup, names: Callable[[tuple[str, ...]], str], *, with_fix: bool = True
) -> Iterator[StyledLine]:
    word = "ignored" if item.ignored else item.severity.value
    codes = " ".join(item.codes)
    about = f" {name_first(item.subjects, _SUBJECTS_SHOWN)}" if item.subjects else ""
    yield [_label(word), ("", f" {codes} on {names(item.hosts)}{about}: {item.message}")]
    if with_fix and not item.ignored:
        yield from _fix_lines(item.fix, 1, _FIX_INDENT)


def _would_use_lines(result: PreflightResult) -> Iterator[str]:
    use = result.would_use
    if use is None:
        return
    if use.problem:
        yield sanitize(f"no launch on these hosts: {use.problem}", keep_lines=False)
    else:
        yield sanitize(_describe_use(use), keep_lines=False)
    yield from _fix_lines(use.fix, 1, 2)


def _describe_use(use: LaunchPreview) -> str:
    port = f", main port {use.main_port}" if use.world_size > 1 else ""
    ranks = count_noun(use.world_size, "rank")
    why = f" ({use.why_precision})" if use.why_precision else ""
    return f"a launch would use: {ranks}, mixed precision {use.precision}{why}{port}"


_PARTS = {"packages": "packages", "gpus": "what GPUs cannot change"}


def render_reused_facts(facts: Iterable[HostFacts]) -> Iterator[str]:
    """Yield a line for each part that hosts did not send again, with its age."""
    for part, found in group_alike(part for host in facts for part in host.reused.items()).items():
        span = " to ".join(dict.fromkeys((spell_duration(min(found)), spell_duration(max(found)))))
        words = _PARTS.get(part, one_line(part, 40))
        yield f"not read again of {count_noun(len(found), 'host')}: {words}, read {span} ago"


def _last_line(result: PreflightResult, repeated: frozenset[Finding]) -> StyledLine:
    merged = [each.finding for each in merge_findings(result.findings)]
    counts = {severity: sum(f.severity is severity and not f.ignored for f in merged) for severity in _ORDER}
    words = ", ".join(f"{count} {severity.value}" for severity, count in counts.items() if count)
    seen = len(merge_findings(repeated))
    ignored = sum(f.ignored for f in merged)
    words += f"{', ' if words else ''}{ignored} ignored" if ignored else ""
    words += f"; {seen} info as in the last 24 h: -v shows {'it' if seen == 1 else 'them'}" if seen else ""
    hosts = len(result.facts) + len(result.errors)
    verdict = "ok" if result.exit_code == 0 else "not ok"
    seconds = f" in {result.seconds:.1f} s" if result.seconds else ""
    style = _STYLES["pass" if result.exit_code == 0 else "critical"]
    head = ("", f"{hosts} host{'s' if hosts != 1 else ''}{seconds}: ")
    return [head, (style, verdict), ("", f" ({words})" if words else "")]


def _label(word: str) -> Span:
    shown = "ok" if word == "pass" else word
    return (_STYLES[word], f"{shown.upper():<{_WIDTH}}")


def _fact_lines(facts: HostFacts) -> Iterator[str]:
    """Yield what was read on one host, for -v."""
    yield sanitize(f"{facts.host}: {summarize_host(facts)}", keep_lines=False)
    if not isinstance(facts.identity, Missing):
        who = facts.identity
        place = f", in {who.container}" if who.container else ""
        yield f"  {one_line(f'{who.user} on {who.hostname}, Linux {who.kernel}{place}')}"
    for gpu in facts.known_gpus:
        yield f"  {one_line(_gpu_line(gpu))}"
    for name in sorted(HostFacts.__dataclass_fields__):
        value = getattr(facts, name)
        if isinstance(value, Missing):
            yield f"  {name}: not read: {one_line(value.reason)} [{value.code}]"
    if facts.probe_ms:
        slow = sorted(facts.probe_ms.items(), key=lambda pair: -pair[1])[:4]
        yield "  slowest probes: " + ", ".join(f"{one_line(name, 30)} {ms:.0f} ms" for name, ms in slow)


def _gpu_line(gpu: Gpu) -> str:
    def show(value: object) -> str:
        return "?" if isinstance(value, Missing) else str(value)

    cc = "?" if isinstance(gpu.capability, Missing) else ".".join(map(str, gpu.capability))
    memory = (
        "?"
        if isinstance(gpu.memory, Missing)
        else f"{gpu.memory.used_mib} of {show(gpu.memory.total_mib)} MiB used"
    )
    processes = "?" if isinstance(gpu.processes, Missing) else len(gpu.processes)
    return (
        f"gpu{gpu.index} {show(gpu.name)} {show(gpu.uuid)} capability {cc}, {memory}, {processes} processes, "
        f"compute mode {show(gpu.compute_mode)}, {show(gpu.temperature_c)} C"
    )
