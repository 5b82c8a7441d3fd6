"""The findings of a preflight page: by code, worst first, each with the commands that correct it."""

from collections.abc import Iterator

from launcher.error_codes import list_host_codes
from launcher.host_checks.render_text import FindingGroup, group_findings
from launcher.host_checks.result import PreflightResult
from launcher.report.html.escape import escape
from launcher.report.preflight_page.heat_map import STATE_OF_SEVERITY
from launcher.report.preflight_page.host_names import render_counted_hosts, render_hosts
from launcher.text import group_alike, name_first
from preflight import regex as re
from preflight.checks.finding import Severity
from preflight.checks.runner import load_checks
from preflight.frozen import dataclass

_PIECE = re.compile(r"(?:'[^']*'|\"[^\"]*\"|[^\s'\"]|['\"])+|\s+")
_HEAD = re.compile(
    r"gpulaunch|sudo|nvidia-smi|ibstat|lspci|dmesg|modprobe|systemctl|timedatectl|ssh|ssh-keygen|scp"
    r"|rsync|nc|nft|ping|ufw|getent|ss|ps|df|ls|cat|mkdir|export|ulimit|kill|pip|docker|podman|git|hf"
    r"|scontrol|nvcc|lsof|fuser|journalctl"
)
_PYTHON = re.compile(r"(?:/|~/)\S*/python[0-9.]*")
_END = re.compile(
    r"that|shows|show|names|name|sends|removes|lists|looks|prints|tells|corrects|says|on|for|in|to|of"
    r"|again|with|whom|which|or|and|then|if|when|by|from|where"
)
_TRAILING = ",;.)"  # a colon belongs to a command, as in `lspci -d 10de:`


def split_fix(fix: str) -> list[tuple[str, bool]]:
    """Return the whole text in pieces, each with whether it is a command to type."""
    return [piece for piece in _merged(_pieces(fix)) if piece[0]]


def _pieces(fix: str) -> Iterator[tuple[str, bool]]:
    """Yield words and spaces, each with whether it is a part of a command."""
    inside = False
    for match in _PIECE.finditer(fix):
        word = match[0]
        if word.isspace():
            inside = inside and word == " "
            yield word, inside
            continue
        lead = word[: len(word) - len(word.lstrip("("))]
        rest = word[len(lead) :]
        is_balanced = rest.count("(") == rest.count(")")
        core = rest if is_balanced and not rest.endswith((",", ";", ".")) else rest.rstrip(_TRAILING)
        if not inside or lead or _END.fullmatch(core):
            inside = any(each.fullmatch(core) for each in (_HEAD, _PYTHON))
        yield lead, False
        yield core, inside
        tail = rest[len(core) :]
        yield tail, False
        inside = inside and not tail


def _merged(pieces: Iterator[tuple[str, bool]]) -> list[tuple[str, bool]]:
    """Join neighbours of one kind; a space at the end of a command is prose."""
    joined: list[tuple[str, bool]] = []
    for words, is_command in pieces:
        if words and joined and joined[-1][1] == is_command:
            joined[-1] = joined[-1][0] + words, is_command
        elif words:
            joined.append((words, is_command))
    tidy: list[tuple[str, bool]] = []
    for words, is_command in joined:
        kept = words.rstrip() if is_command else words
        tidy += [(kept, is_command), (words[len(kept) :], False)]
    return tidy


_MOST_GROUPS = 60  # groups of one code that are written out; the JSON in the page has the others
_MOST_SUBJECTS = 16


@dataclass(frozen=True, slots=True)
class CodeSection:
    """All that is said with one code; `others` are codes that the same unread fact keeps from judging."""

    code: str
    others: tuple[str, ...]
    groups: tuple[FindingGroup, ...]

    @property
    def is_quiet(self) -> bool:
        """Whether nothing of it needs an eye: information, or what --ignore names."""
        return all(each.ignored or each.severity is Severity.INFO for each in self.groups)


def build_code_sections(result: PreflightResult) -> tuple[CodeSection, ...]:
    """Return the findings by code, in the order of their worst one."""
    by_code = group_alike((group.codes[0], group) for group in group_findings(result.findings))
    named = set(by_code)
    sections = []
    for code, groups in by_code.items():
        others = dict.fromkeys(each for group in groups for each in group.codes if each not in named)
        named |= set(others)
        sections.append(CodeSection(code, tuple(others), groups))
    return tuple(sections)


def list_anchors(sections: tuple[CodeSection, ...]) -> frozenset[str]:
    """Return the codes that a link may lead to."""
    return frozenset(code for section in sections for code in (section.code, *section.others))


def render_findings(sections: tuple[CodeSection, ...]) -> Iterator[str]:
    """Yield the section; information lies folded at its end."""
    yield "<h2>Findings and fixes</h2>"
    if not sections:
        yield '<p class="soft">None.</p>'
    for section in sections:
        if not section.is_quiet:
            yield from _section(section)
    quiet = [section for section in sections if section.is_quiet]
    if quiet:
        codes = " ".join(section.code for section in quiet)
        yield f"<details><summary>Information: {escape(codes)}</summary>"
        for section in quiet:
            yield from _section(section)
        yield "</details>"


def _section(section: CodeSection) -> Iterator[str]:
    yield f'<section class="code" id="{escape(section.code)}">'
    yield "".join(f'<span id="{escape(code)}"></span>' for code in section.others)
    codes = " ".join((section.code, *section.others))
    yield f"<h3>{escape(codes)} <span>{escape(_title(section.code))}</span></h3>"
    yield from _about(section.code)
    shown = section.groups[:_MOST_GROUPS]
    shared = 0  # findings right above whose fix is this one's
    for group, following in zip(shown, (*shown[1:], None), strict=True):
        shared += 1
        if following is not None and (following.fix, following.ignored) == (group.fix, group.ignored):
            yield from _group(group, fix_of=0)
        else:
            yield from _group(group, fix_of=shared)
            shared = 0
    left = section.groups[_MOST_GROUPS:]
    if left:
        hosts = tuple(dict.fromkeys(host for group in left for host in group.hosts))
        yield f'<p class="soft">and {len(left)} more, in the JSON in this page, on {render_hosts(hosts)}</p>'
    yield "</section>"


def _title(code: str) -> str:
    """Return what a check is about, or what it means that a host has this code."""
    check = load_checks().get(code)
    if check is not None:
        return f"true when it passes: {check.title}"
    kind = list_host_codes().get(code)
    return "" if kind is None else (kind.__doc__ or "").strip().splitlines()[0]


def _about(code: str) -> Iterator[str]:
    """Yield why it matters and what corrects it: the text of `gpulaunch explain`, folded."""
    check = load_checks().get(code)
    said = "" if check is None else check.text.partition("\n")[2].strip()
    if said:
        parts = said.replace("\nSource:", "\n\nSource:").split("\n\n")
        text = "".join(f"<p>{escape(part)}</p>" for part in parts)
        yield f'<details class="about"><summary>Why {escape(code)} matters</summary>{text}</details>'


def _group(group: FindingGroup, *, fix_of: int) -> Iterator[str]:
    """Yield one finding; its fix is that of `fix_of` findings, 0 where it comes with a later one."""
    letter, word = STATE_OF_SEVERITY[group.severity], group.severity.value
    ignored = ", ignored" if group.ignored else ""
    about = name_first(group.subjects, _MOST_SUBJECTS)
    kind = "finding soft" if ignored else "finding"
    yield f'<div class="{kind}"><i class="key {letter.lower()}">{letter}</i><div>'
    where = f"{render_counted_hosts(group.hosts)}{f': {escape(about)}' if about else ''}"
    yield f'<div class="where">{word}{ignored} on {where}</div>'
    yield f"<p>{escape(group.message)}</p>"
    if group.fix and not group.ignored and fix_of:
        many = f" for these {fix_of}" if fix_of > 1 else ""
        yield f'<p class="fix">Fix{many}: {render_fix(group.fix)}</p>'
    yield "</div></div>"


def render_fix(fix: str) -> str:
    """Return a fix as markup: one click selects a command in it."""
    pieces = split_fix(fix)
    return "".join(
        f"<code>{escape(words)}</code>" if is_command else escape(words) for words, is_command in pieces
    )
