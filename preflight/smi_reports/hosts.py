"""A file of several hosts, as pdsh, clush, Ansible, parallel-ssh, head and loops over ssh write it. Pure.

Lines that carry a host's name, blocks under a line that names one, and prompts on several hosts.
"""

from collections import Counter
from collections.abc import Iterator

from preflight import regex as re
from preflight.decide.host_lists import expand_host_list
from preflight.smi_reports.excerpt import ABOUT_GPUS
from preflight.smi_reports.gpustat import HEAD
from preflight.smi_reports.surroundings import ERRORS, OF_LOG

_NAME = rf"(?!{OF_LOG}(?![\w.-]))[A-Za-z0-9][\w.-]{{0,252}}"
_TITLE = r"(?!(?!(?:\d+\.){3}\d)[\d.]+(?![\w.-]))[A-Za-z0-9][A-Za-z0-9.-]{0,252}"
"""Of a host alone: without underscores, and not a number or a version, but an address."""
_STATE = (
    r"(?!\d+-(?:\d+|[a-z]{3})-\d|(?:attempt|case|cuda|day|driver|epoch|exp(?:eriment)?|iter(?:ation)?|job|part"
    r"|phase|round|run|stage|step|task|test|trial|try|version|week)[-_.]?(?:\d|[a-z](?![\w.-])))"
)
"""Not a date, a run or a step, of which one host may have several."""
_ANY = rf"(?:host|node|server|machine|box) (?:\d{{1,5}}|[A-Za-z])(?![\w.-])|{_TITLE}"
"""`Node A`, or such a title."""
_CALLED = rf"(?:(?:host|node)(?:name)?:?[ \t]+(?!(?:\d{{1,5}}|[a-z])(?![\w.-]))|{_STATE})"
"""In front of one: a word that says it is of a host."""
_PREFIXES = (
    re.compile(rf"(?: {{0,5}}(?=\d))?({_NAME}):(?: |$)"),  # pdsh, clush, srun --label
    re.compile(rf"(?=[A-Za-z][^:]*[\d.])(?![\dA-Fa-f]+:)({_NAME}):"),  # grep, of files
    re.compile(rf"\[(?:pod/)?({_NAME})(?:/[\w.-]+)?\](?: (?:out|err))?:?(?: |$)"),  # torchrun, kubectl
    re.compile(rf"({_NAME}) *\|(?: |$)"),  # containers of Compose
    re.compile(
        rf"(?=(?:\S{{3,5}} +\d+ [\d:]{{8}}|\d{{4}}-\d\d-\d\dT\S+) (?!localhost )({_NAME}) kernel: )"
    ),  # rsyslog
)
_LEAST_PREFIXED = 0.9
_FIRST_LINE = re.compile(
    r"\| *NVIDIA-SMI \d|=NVSMI LOG=|<\?xml |GPU 0: [^\n]*\(UUID: |(?:timestamp|index|name|uuid), [a-z]"
    rf"|{ERRORS}"
)
_TIME = re.compile(
    r"(?:[A-Z][a-z]{2},? )?"
    r"(?:[A-Z][a-z]{2} +\d{1,2} |(?:\d{2,4}[/.-]\d\d[/.-]\d{2,4}|\d\d.[A-Z]\w\w.\d{4})[T: ]|[IWEF]\d{4} )?"
    r"\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d| ?[AaPp][Mm]\b)?(?: \d{4}\b)?"
)
_SOME_TIME, _LONGEST_TAG = "_", 100
_WORD_OF_TAG = re.compile(r"([\w.-]+)")
_NAME_IN_TAG = re.compile(rf"(?![A-Z]+$)(?=[A-Za-z]|(?:\d+\.){{3}}\d+$){_NAME}")
_NUMBER = re.compile(r"\d{1,7}")  # longer ones are times
_OF_RANK = re.compile(r"[\d.]*|(?i:pid|rank|task|node|host|worker|replica)")
"""What is in front of a number that a host may have: others are times, steps, and lines of a program."""
_COLLECTOR = re.compile(r"(?:pdsh@[\w.-]+|clush|srun): ")  # what a collector says itself
_HEADINGS = (
    re.compile(
        rf"^({_NAME}) \| [A-Z]{{6,11}}!?(?: \| rc=-?\d+)? (?:(?:>>|=>.*)$|\| \(stdout\) )", re.MULTILINE
    ),
    re.compile(rf"^\[\d+\] \d\d:\d\d:\d\d \[(?:SUCCESS|FAILURE)\] (?:\w+@)?({_NAME})\b.*$", re.MULTILINE),
    re.compile(rf"^-{{4,}}\n({_NAME}(?:[,\[][\w.,\[\]-]+)?)(?: \(\d+\))?\n-{{4,}}$", re.MULTILINE),
    re.compile(r"^==> ([^<>\n]{1,200}) <==$", re.MULTILINE),
    re.compile(rf"^Every [\d.,]{{1,8}}s: [^\n]{{1,200}}? ({_NAME}): [A-Z][a-z]{{2}} .*$", re.MULTILINE),
    re.compile(rf"^(?:ok|changed|fatal|failed): \[({_NAME})\](?:: [A-Z]+!)? => .*$", re.MULTILINE),
)  # fmt: skip
"""Ansible, parallel-ssh, dshbak and clush -b, head and tail, watch: what follows each is of one host."""
_UNSURE_HEADINGS = tuple(
    re.compile(f"^{pattern}$", re.MULTILINE | re.IGNORECASE)
    for pattern in (
        rf"[=#*-]{{2,}}[ \t]*{_CALLED}({_TITLE})[ \t]*:?[ \t]*[=#*-]{{2,}}",
        (
            rf"(?:#{{1,6}} |\*\*|(?:[-*+]|\d{{1,3}}[.)]) (?=[^\n]*(?::|\*\*)$)(?:\*\*)?|on |from:? )"
            rf"{_CALLED}({_ANY})(?: \([^()\n]{{1,80}}\)| output)?:?(?:\*\*)?:?"
        ),
        rf"(?:host|node)(?:name)?[=:] ?({_TITLE})",
        rf"{_STATE}({_ANY})(?: output)?:(?: [|>]-?)?",
        rf"(?:\*\*)?{_STATE}({_ANY})(?:\*\*)?",
    )
)
"""`==== node1 ====`, `# node1`, `HOST=node1`, `node1:` and `node1`: commands have such titles too."""
_MOST_FOLDED = 1024
_COUNTER = re.compile(r"\d+|(?<=[a-z][-_ ])[A-Za-z]$")
"""What differs between the names of hosts that are counted: `node-2`, `node-b`."""
_WITHIN_Q = re.compile(r"\n\s*(?:GPU (?:[0-9A-Fa-f]{4}){1,2}:|[A-Z][\w ]+ : )")
"""Behind the rest of a value that a terminal wrapped."""
_COLUMN = re.compile(
    r"^(?:host|hostname|node|nodename|server), *(?=[a-z_.]+(?: \[[\w/%]+\])?(?:,|$))", re.MULTILINE
)
_PROMPT = re.compile(
    rf"^(?:\([\w.-]+\) )?\[?[\w.-]{{1,64}}@({_NAME})[: ][^\n$#%>]{{0,200}}[$#%>](?: .*)?$", re.MULTILINE
)

Parts = list[tuple[str, str]]


def split_prefixed(text: str) -> Parts:
    """Return (host, its lines) of a text whose lines carry the names of several hosts, else []."""
    lines = [line for line in text.split("\n") if line.strip() and not _COLLECTOR.match(line)]
    tagged = (
        [(match[1], line[match.end() :]) for line in lines if (match := prefix.match(line))]
        for prefix in (*_PREFIXES, *filter(None, [_tag_of_hosts(text)]))
    )
    found = max(tagged, key=len)
    names = {name for name, _ in found}
    most = len(found) >= _LEAST_PREFIXED * len(lines)
    return _joined(found) if most and len(names) > 1 and not _are_counts(found, names) else []


def _tag_of_hosts(text: str) -> "re.Pattern[str] | None":
    """Return the pattern of tags in front of first lines, which differ by the hosts they name; else None.

    Where no word that differs can be a name, numbers count: of ranks and processes. Words that start with a
    digit, as times do, may be others in each line.
    """
    starts = [found.start() for found in _FIRST_LINE.finditer(text)]
    above = (text[text.rfind("\n", 0, at) + 1 : at].rstrip("=") for at in starts)
    raw = dict.fromkeys(re.sub(r"\s+", " ", _TIME.sub(_SOME_TIME, tag)) for tag in above)
    every = [_WORD_OF_TAG.split(tag) for tag in [*raw][:_MOST_FOLDED] if 0 < len(tag) < _LONGEST_TAG]
    tags = max(([tag for tag in every if tag[::2] == one[::2]] for one in every), key=len, default=[])
    if len(tags) < 2:
        return None
    words = [set(each) for each in zip(*(tag[1::2] for tag in tags), strict=True)]
    *gaps, last = [re.escape(gap).replace(r"\ ", " +") for gap in tags[0][::2]]
    unlike = [at for at, each in enumerate(words) if len(each) > 1]
    named = [at for at in unlike if all(map(_NAME_IN_TAG.fullmatch, words[at]))]
    before = ["", *tags[0][1::2]]
    ranks = [at for at in unlike if gaps[at] != ":" and _OF_RANK.fullmatch(before[at])]
    named = named or [at for at in ranks if all(map(_NUMBER.fullmatch, words[at]))]
    host = next((at for at in named if gaps[at].endswith("@")), *named[:1] or [-1])
    known = [next(iter(each)) if len(each) == 1 else "" for each in words]
    shapes = [re.escape(word) if word[:1].isalpha() else rf"(?:{_TIME.pattern}|[\w.+-]+)" for word in known]
    shape = "".join(
        gap + (f"({_NAME})" if at == host else word)
        for at, (gap, word) in enumerate(zip(gaps, shapes, strict=True))
    )
    return re.compile(f"{shape}{last.removesuffix(' +')}[ \\t]?") if named else None


def _are_counts(found: Parts, names: set[str]) -> bool:
    """Whether the names are numbers of lines, which no two share, or seconds of the kernel."""
    are_seconds = all(re.fullmatch(r"\d+\.\d+", name) for name in names)
    return are_seconds or (len(names) == len(found) and all(re.fullmatch(r"[\d.]+", name) for name in names))


def split_headed(text: str) -> Parts:
    """Return (host, text) of each block under a line that a collector prints above what a host answered."""
    for heading in _HEADINGS:
        found = list(heading.finditer(text))
        if found:
            return [
                (host, block)
                for name, block in _blocks(text, found)
                for host in expand_host_list(name, _MOST_FOLDED)
            ]
    return []


def split_gpustat(text: str) -> Parts:
    """Return (host, text) of what gpustat printed on several hosts, by the names in its first lines."""
    found = list(re.finditer(HEAD, text, re.MULTILINE))
    if len({match[1] for match in found}) < 2:
        return []
    return _blocks(text, found, with_heading=True)


def split_titled(text: str) -> Iterator[tuple[Parts, bool]]:
    """Yield (host, text) of each block under a title, and whether the titles differ by a counter alone.

    Of titles without a mark around them only those count that differ by that alone.
    """
    for number, heading in enumerate(_UNSURE_HEADINGS):
        found = [match for match in heading.finditer(text) if not _WITHIN_Q.match(text, match.end())]
        shapes = [_COUNTER.sub("0", match[1]) for match in found]
        shape = Counter(shapes).most_common(1)[0][0] if shapes else ""
        is_numbered = "0" in shape and len(set(shapes)) == 1
        if number:
            found = [match for match, own in zip(found, shapes, strict=True) if own == shape and "0" in own]
            is_numbered = bool(found)
        if len({match[1] for match in found}) > 1:
            yield _blocks(text, found), is_numbered


def split_by_column(text: str) -> Parts:
    """Return (host, CSV) of a list whose first column is the host, else []."""
    head = _COLUMN.search(text)
    if head is None:
        return []
    names, *lines = text[head.end() :].split("\n")
    rows = [line.partition(",") for line in lines if line.count(",") == names.count(",") + 1]
    found = [(name.strip(), rest.strip()) for name, _, rest in rows]
    return [(name, f"{names}\n{rows}") for name, rows in _joined(found)]


def split_prompted(text: str) -> Parts:
    """Return (host, text) of a session on several hosts, by the names in its prompts."""
    found = list(_PROMPT.finditer(text))
    if len({match[1] for match in found}) < 2:
        return []
    blocks = _blocks(text, found, with_heading=True)  # without the host from which others were reached
    return [(name, block) for name, block in blocks if ABOUT_GPUS.search(block)]


def _blocks(text: str, headings: list[re.Match[str]], *, with_heading: bool = False) -> Parts:
    """Return (name, text) of each heading, which names a host, up to the next one."""
    ends = [match.start() for match in headings[1:]] + [len(text)]
    starts = [match.start() if with_heading else match.end() for match in headings]
    return _joined([(match[1], text[a:b]) for match, a, b in zip(headings, starts, ends, strict=True)])


def _joined(found: list[tuple[str, str]]) -> Parts:
    """Return the texts of each name as one text, in the order in which the names first come."""
    texts: dict[str, list[str]] = {}
    for name, text in found:
        texts.setdefault(name.replace(" ", "-"), []).append(text)
    return [(name, "\n".join(parts) + "\n") for name, parts in texts.items()]
