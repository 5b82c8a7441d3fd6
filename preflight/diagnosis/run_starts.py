"""Where the last of several runs starts that were appended to one log. Pure."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Container, Iterator, Sequence
from itertools import pairwise

from preflight import regex as re
from preflight.diagnosis.lines import Line
from preflight.diagnosis.signature_matcher import JoinedLines, is_harmless, zero_numbers
from preflight.diagnosis.signatures.model import AnyOf
from preflight.diagnosis.step_counters import FEWEST_STEPS, CountedStep, get_turn_words, parse_steps
from preflight.diagnosis.tracebacks import HEADER, ParsedException, parse_frames

_JOB = re.compile(
    r"slurmstepd\S{0,60}: error: \*{3} (?:JOB|STEP) (\d{1,12})\b|^The output \(if any\) is above this job summary"
)
_NOHUP = "nohup: ignoring input"
_TRACKED = re.compile(r"^wandb: Run data is saved locally in \S*?\brun-(\d+_\d+-\w+)")
_PROMPT = re.compile(
    r"(?:\([\w.-]{1,40}\) ?)?(?:\[[\w.-]{1,40}@[\w.-]{1,60} [^\]]{1,200}\]|[\w.-]{1,40}@[\w.-]{1,60}:[^\s$#]{1,200}) ?[$#] (?!\w+: )\S"
)
# A command that a shell shows as it runs it, or that a person typed.
_TRACED = re.compile(
    r"(?:\+{1,3} |(?:\([\w.-]{1,40}\) ?)?(?:[$%] |(?:PS )?[A-Z]:\\[^>]{0,200}> ?))\S.{0,400}?[\s/\\]([\w.-]{1,80}\.py)\b"
)
_STARTS_COMMAND = ("+", "$ ", "% ", "(", "PS ", "C:", "D:")
_USAGE = re.compile(r"^\S+\.py: error: ")
# What a trainer or a server says before it does anything: its arguments are wrong, or its port is taken.
_REFUSED = re.compile(
    r"^[\w/.-]*(?:train|main|run|launch|tun|sft|dpo|grpo|ppo|serve)[\w-]*\.py: error: |not used by the HfArgumentParser|^OSError: \[Errno 98\] "
)
_BEGINS = re.compile(r"Started server process|\*{5} Running training \*")
_WORKS = re.compile(r"\bHTTP/\d(?:\.\d)?\" 2\d\d\b|\d/\d+ \[.{1,40}/it\b")
_BELOW_REFUSAL = 20  # lines in which a launcher reports it
# A command of a script that ended by this; the next command printed what comes far behind it.
_COMMAND_ENDED = re.compile(r"(?:\S+\.py: )?error: |\S{1,300}: line \d{1,6}: \S{1,80}: command not found$")
_LAUNCHED = AnyOf(
    r"ChildFailedError|sigkill_handler|local_rank|^srun: |ProcessRaisedException|\bray\b|NCCL|DistBackend|c10d|CalledProcessError"
)
_RAISED = re.compile(r"^(?:\w+\.)*\w+(?:Error|Exception|Interrupt)\b(?!Group)")
_HEAD_OF_TRACEBACK = re.compile(r"Traceback \(most recent call last\):$")
_IN_SCRIPT = re.compile(
    r' {1,2}File "(?!<string>|<stdin>|[^"]{1,300}-packages/\w+/(?:\w+/){0,8}(?!__main__|run\b|launch|cli|main\b|train)\w+\.py", line \d+, in <module>)[^"]{1,400}", line \d+, in (?:<module>|_run_module_as_main)$'
)
# Where Python cannot parse the script that it was given; no heading is above.
_FILE, _UNPARSED = (
    re.compile(r' {2}File "[^"]{1,400}", line \d+$'),
    re.compile(r"(?:Syntax|Indentation|Tab)Error: "),
)
_LINK = re.compile(r"During handling of|The above exception")
_OF_ANOTHER = re.compile(
    r"During handling of|The above exception|Exception (?:in thread|ignored)|Original Traceback|^Process \S+:|Logging error|RemoteTraceback"
)
_OF_A_SHELL = re.compile(r"\S{1,300}: line \d{1,6}: (?! *\d+ )")
# What a loop of a script, a launcher or a scheduler says when it starts a run again that has ended.
RETRIED = re.compile(
    r"\W*(?:\d[\d: T.,-]{7,29}\W{1,8})?(?:\[[\w.-]{1,30}\]\W{1,3})?(?:(?:INFO|WARN(?:ING)?|ERROR)\W+)?(?:(?:[Rr]e-?)?[Aa]ttempt|ATTEMPT|[Tt]ry|[Rr]etry|RETRY|[Rr]un|RUN|[Rr]estart|RESTART)(?: number| no\.?| count)?[:=]? {0,3}#?\d{1,3}(?: ?(?:of|/) ?\d{1,3})?\W{0,80}$"
    r"|.{0,120}\b(?:[Ee]xit(?:ed)?|[Ff]ailed|FAILED|[Cc]rashed|[Dd]ied|[Ee]nded)\b(?!.{0,160}(?:[Cc]onnect|[Dd]ownload|[Rr]equest|[Ff]etch|[Ss]ocket|http)).{0,80}\b(?:[Rr]etrying|[Rr]estarting|[Rr]elaunching|[Rr]esubmitting|[Rr]unning again|[Tt]rying again|will (?:restart|retry|relaunch))\b"
    r"|.{0,120}\b(?:[Ss]cheduled restart job\b|[Rr]equeue(?:d|ing)\b|(?:[Rr]estarting|[Rr]elaunching|[Rr]e-?running|[Rr]etrying|[Rr]esubmitting) (?:the )?(?:training|job|run|script|torchrun|deepspeed|accelerate|launch|worker group|(?:training )?workers)\b)(?! (?:is|was) (?:disabled|off|not)\b)"
)
# How a script of several stages heads those behind its first one.
_NEXT_STAGE = re.compile(
    r"\W{0,8}(?:(?:[Ss]tage|STAGE|[Pp]hase|PHASE)\W{0,3}(?!1\b)\d{1,2}(?:/\d{1,2})?\b|[\[(](?!1/)\d{1,2}/\d{1,2}[\])] ?[A-Za-z])(?!.*(?:ttempt|ATTEMPT|[Tt]ry|[Rr]estart|[Rr]esum))\D{0,80}$"
)
# What a run says that continues where another one was ended.
RESUMES = re.compile(
    r"\b(?:[Rr]esum(?:ing|ed)|[Ll]oad(?:ing|ed)|[Rr]estor(?:ing|ed)|[Cc]ontinuing)\b.{0,80}(?:\b[Cc]heckpoint|\bckpt|\b(?:[Ss]tep|[Ee]poch|[Ii]ter(?:ation)?) \d)"
)
_AGAIN = AnyOf("ttempt|ATTEMPT|etry|RETRY|estart|equeu|RESTART|elaunch|again|Run |run |RUN |Try |try |ubmit")
# torch's agent on a worker that ended: it has stopped the others of its host, and may start all again.
_WORKER_FAILED = re.compile(r"\bfailed \(exitcode: -?\d{1,3}\) local_rank: \d")
FIRST_FAILURE = re.compile(r"Root Cause \(first observed failure\)")
_HOST_IN_TABLE, _TIME_IN_TABLE = re.compile(r"\s*host {1,8}: (\S+)"), re.compile(r"\s*time {1,8}: (\S+)")
_ROWS_OF_TABLE = 8
_CUT_BY_HYDRA = "Error executing job with overrides"
_ANOTHER_RUN, _ANOTHER_COMMAND = 100, 40
"""Lines without a failure behind one that show that another run, or another command, was started."""
_SHORTEST_RUN = 15
_SHORTEST_LINE = 8
_BEGINNING = 12  # lines with those that only a start prints: workers' imports may be above
_FEW_WORDS = 3  # lines before steps that a log may lack at its start, or a page may add
_HEAD = 60  # characters of a run's first lines that are compared: what follows are mostly its options


def find_last_start(lines: Sequence[Line], failing: Sequence[Line], made: Sequence[int] = ()) -> int:
    """Return the `order` of the last run's first line, 0 for a log of one run; `made`: where steps are.

    A run behind a failed one starts as the first did: with the same two lines, but for their numbers. Lines
    that came twice before anything failed may be another rank's; where several ranks are seen, all may.
    """
    if not failing or lines[0].source:
        return 0
    start = max(_after_other_jobs(lines), _after_command(lines, failing), _after_tracker(lines, failing))
    ranks = {line.rank for line in lines}
    of_one = len(ranks) == 1
    if len(lines) > _SHORTEST_RUN and len(ranks - {None}) <= 1:  # torch names the rank in tracebacks alone
        start = max(start, _started_alike(lines, failing))
        if not _are_launched(failing):
            ended = _after_ended_process(failing, len(lines)) if of_one else 0
            start = max(start, _after_counted_again(lines, failing), ended)
    start = start if len(lines) - start >= _SHORTEST_RUN else 0
    start = max(
        start,
        *(
            after(lines, failing)
            for after in (_after_command_of_job, _after_traced_command, _after_retry, _after_launcher)
        ),
        _after_refusal(lines, failing, made),
        _after_counted_again(lines, [line for line in failing[-1:] if _WORKER_FAILED.search(line.text)]),
    )
    return max(start, _after_whole_traceback(lines, failing)) if of_one else start


def _after_other_jobs(lines: Sequence[Line]) -> int:
    """Return the place behind the last job but one of Slurm or LSF, which appends a report of each."""
    ends: defaultdict[object, list[tuple[str | None, int]]] = defaultdict(list)
    for line in lines:
        if match := _JOB.search(line.text):
            ends[line.stream].append((match[1], line.order))
    pairs = (pair for of_one in ends.values() for pair in pairwise(of_one))
    return max((order + 1 for (job, order), (later, _) in pairs if not job or job != later), default=0)


def _after_command_of_job(lines: Sequence[Line], failing: Sequence[Line]) -> int:
    """Return the place behind what a batch script said of its commands if it ran on: its job ended later."""
    end = max((line.order for line in failing if _JOB.search(line.text)), default=0)
    return max((line.order + 1 for line in lines[:end] if _OF_A_SHELL.match(line.text)), default=0)


def _after_refusal(lines: Sequence[Line], failing: Sequence[Line], made: Sequence[int]) -> int:
    """Return the place behind what was refused before it did anything, if another trains or serves then."""
    refused = max((line.order for line in failing if _REFUSED.search(line.text)), default=None)
    if refused is None or (made and made[0] < refused):
        return 0
    begun = next((line for line in lines[refused:] if _BEGINS.search(line.text)), lines[-1])
    works = any(_WORKS.search(line.text) for line in lines[begun.order + 1 :])
    if "Errno" in lines[refused].text and not (works and "server" in begun.text):
        return 0
    begins = [begun.order] * works + list(made[:1]) * (len(made) >= FEWEST_STEPS)
    end = max(line.order for line in failing if line.order < min(begins, default=len(lines)))
    return end + 1 if begins and end <= refused + _BELOW_REFUSAL else 0


def _after_tracker(lines: Sequence[Line], failing: Sequence[Line]) -> int:
    """Return where the last run of Weights & Biases starts that has another name than one that failed."""
    runs = [(match[1], line.order) for line in lines if (match := _TRACKED.match(line.text))]
    return max(
        (
            order
            for (earlier, before), (run, order) in pairwise(runs)
            if run != earlier and any(before < line.order < order for line in failing)
        ),
        default=0,
    )


def _after_command(lines: Sequence[Line], failing: Sequence[Line]) -> int:
    """Return where nohup started the last command, or a person typed the last failed one behind another.

    One that was typed before, and makes steps, counts behind all failures, too.
    """
    first, last = failing[0].order, failing[-1].order
    before = {line.text for line in lines[:last] if _is_typed(line)}
    typed = (
        line.order
        for line in lines[first + 1 :]
        if line.text.startswith(_NOHUP)
        or (_is_typed(line) and (line.order < last or _runs_again(lines, line, before)))
    )
    return max(typed, default=0)


def _is_typed(line: Line) -> bool:
    return "@" in line.text[:100] and _PROMPT.match(line.text) is not None


def _runs_again(lines: Sequence[Line], typed: Line, before: Container[str]) -> bool:
    return typed.text in before and len(parse_steps(lines[typed.order :])) >= FEWEST_STEPS


def _after_traced_command(lines: Sequence[Line], failing: Sequence[Line]) -> int:
    """Return where a shell (`set -x` or its prompt) starts a script again that had failed before, else 0.

    Another script than before may fail because the first one did.
    """
    traced = _traced_scripts(lines)
    before = {script for order, script in traced if order < failing[0].order}
    between = range(failing[0].order + 1, failing[-1].order)
    return max((order for order, script in traced if script in before and order in between), default=0)


def starts_again(lines: Sequence[Line], after: int, near: Sequence[str]) -> bool:
    """Whether words near below a line say that a run starts again, or a shell shows the same script again."""
    if any(map(RETRIED.match, near)):
        return True
    traced = _traced_scripts(lines)
    before = {script for order, script in traced if order < after}
    return next((script for order, script in traced if order > after), "") in before


def _traced_scripts(lines: Sequence[Line]) -> list[tuple[int, str]]:
    """Return where a shell shows that it starts scripts, and their names."""
    traced = (
        (line.order, _TRACED.match(line.text)) for line in lines if line.text.startswith(_STARTS_COMMAND)
    )
    return [(order, found[1]) for order, found in traced if found]


def _after_retry(lines: Sequence[Line], failing: Sequence[Line]) -> int:
    """Return the place behind the last restart of a failed run, or resumption of a job, that failed, too."""
    between = lines[failing[0].order : failing[-1].order]
    again = (between[at] for at in JoinedLines([line.text for line in between]).list_matches(_AGAIN))
    retried = [line for line in again if RETRIED.match(line.text) and not is_harmless(line.text)]
    if _JOB.search(failing[0].text):
        retried += [line for line in between if RESUMES.search(line.text)]
    return max((line.order + 1 for line in retried), default=0)


def _after_counted_again(lines: Sequence[Line], failing: Sequence[Line]) -> int:
    """Return the place behind a failure where steps are counted again from the first number seen before it.

    Ranks whose lines have no prefix may be late, so of launched ones only their agent's last line counts.
    """
    ends = [line.order for line in failing]
    behind = parse_steps(lines[ends[0] + 1 :]) if ends else ()
    if not behind:  # of a log that ends with its failure nothing more is looked at
        return 0
    first: dict[object, CountedStep] = {}
    stages = stage_starts(lines)
    start = passed = 0
    for step in (*parse_steps(lines[: ends[0] + 1]), *behind):
        ended = passed < len(ends) and step.order > ends[passed]
        form = step.head, get_turn_words(lines[step.order].text)
        before = first.setdefault(form, step) if not ended else first.get(form)
        if ended and before is not None and step.value <= before.value:
            passed = bisect_left(ends, step.order)
            end = ends[passed - 1] + 1
            again = bisect_left(stages, end) == bisect_left(stages, step.order)
            start = end if again and _begin_alike(lines[: before.order], lines[end : step.order]) else start
    return start


def _begin_alike(above: Sequence[Line], other: Sequence[Line]) -> bool:
    """Whether what is above a run's first step is what was above another one's, as far as that is known."""
    head, again = (
        {get_turn_words(line.text) for line in of[-_BEGINNING:]} - {frozenset()} for of in (above, other)
    )
    return len(head) < (1 if again else _FEW_WORDS) or 2 * len(head & again) > min(len(head), len(again) or 1)


def stage_starts(lines: Sequence[Line]) -> list[int]:
    """Return where a script heads a stage behind its first one, or starts a program new to it."""
    starts = [line.order for line in lines if _NEXT_STAGE.match(line.text)]
    seen = set[str]()
    for order, script in _traced_scripts(lines):
        starts += [order] if seen and script not in seen else []
        seen.add(script)
    return sorted(starts)


def _after_launcher(lines: Sequence[Line], failing: Sequence[Line]) -> int:
    """Return the place behind torch's table of failed ranks, which ends a launch, if a later one follows."""
    last: dict[str, tuple[str, int]] = {}
    start = 0
    for line in failing:
        if not FIRST_FAILURE.search(line.text):
            continue
        rows = [each.text for each in lines[line.order : line.order + _ROWS_OF_TABLE]]
        host = next((found[1] for row in rows if (found := _HOST_IN_TABLE.match(row))), "")
        time = next((found[1] for row in rows if (found := _TIME_IN_TABLE.match(row))), "")
        before, end = last.get(host, (time, 0))
        start = end if time != before else start
        last[host] = (time, line.order + len(rows))
    return start


def _after_ended_process(failing: Sequence[Line], end: int) -> int:
    """Return the place behind an error that ended a process, if another one wrote what follows up to `end`.

    A wrong command line ends it at once, as whatever ends a command of a script. Behind an exception, a
    hundred lines of other things and one more exception show that another run was started, or that it was
    handled. Launched ranks are left alone: one may fail while the others continue.
    """
    last = max((line.order for line in failing if _RAISED.match(line.text)), default=0)
    orders = [line.order for line in failing]
    ends = [
        line.order + 1
        for line, following in zip(failing, [*orders[1:], end], strict=True)
        if (line.order < last and (_USAGE.match(line.text) or following - line.order >= _ANOTHER_RUN))
        or (following - line.order > _ANOTHER_COMMAND and _COMMAND_ENDED.match(line.text))
    ]
    return max(ends, default=0)


def _after_whole_traceback(lines: Sequence[Line], failing: Sequence[Line]) -> int:
    """Return where the last traceback starts, if it is right below another one: a process dies of one only.

    Of a script that Python cannot parse it prints no heading.
    """
    stream = failing[-1].stream
    of_one = [line for line in failing if line.stream == stream]
    if sum(1 for line in of_one if _HEAD_OF_TRACEBACK.match(line.text) or _UNPARSED.match(line.text)) < 2:
        return 0
    own = [line for line in lines if line.stream == stream]
    heads = [at for at, line in enumerate(own) if _ended_script(own, at)]
    if len(heads) < 2 or _are_launched(lines):
        return 0
    adjacent = _end_of_traceback(own, _last_of_chain(own, heads[-2])) + 1 == heads[-1]
    return own[heads[-1]].order if adjacent and _end_of_traceback(own, heads[-1]) < len(own) else 0


def _are_launched(lines: Sequence[Line]) -> bool:
    return bool(JoinedLines([line.text for line in lines]).list_matches(_LAUNCHED))


def _end_of_traceback(lines: Sequence[Line], head: int) -> int:
    """Return the place of the exception below a traceback's first line, or the log's length."""
    return next((at for at in range(head + 1, len(lines)) if not lines[at].text[:1].isspace()), len(lines))


def _last_of_chain(lines: Sequence[Line], head: int) -> int:
    """Return the place of the first line of the last traceback that is linked to another one."""
    below = _end_of_traceback(lines, head) + 1
    while below < len(lines) and _LINK.match(lines[below].text):
        head = below + 1
        below = _end_of_traceback(lines, head) + 1
    return head


def _ended_script(lines: Sequence[Line], head: int) -> bool:
    """Whether a traceback or the last of its chain starts in a script, or Python could not parse that."""
    if _FILE.match(lines[head].text) and not any(
        line.text[:1].isspace() or HEADER.match(line.text) for line in lines[max(0, head - 1) : head]
    ):
        end = _end_of_traceback(lines, head)
        return any(_UNPARSED.match(line.text) for line in lines[end : end + 1])
    if _HEAD_OF_TRACEBACK.match(lines[head].text) is None or any(
        _OF_ANOTHER.search(line.text) for line in lines[max(0, head - 3) : head]
    ):
        return False  # of a thread or a child
    last = _last_of_chain(lines, head)
    return any(_IN_SCRIPT.match(line.text) for line in lines[last + 1 : last + 2])


def _started_alike(lines: Sequence[Line], failing: Sequence[Line]) -> int:
    """Return where the last run repeats two lines that came once before anything failed."""
    if _ended_script(lines, 0) and not _are_launched(
        lines
    ):  # a first run that failed before it printed anything
        behind = _end_of_traceback(lines, _last_of_chain(lines, 0)) + 1
        lines, failing = lines[behind:], [line for line in failing if line.order >= behind]
    if not failing:
        return 0
    shapes = zero_numbers("\n".join(line.text[: 2 * _HEAD] for line in lines)).split("\n")
    heads = [each[:_HEAD] for each in shapes]
    places: dict[str, list[int]] = {head: [] for head in heads[:_BEGINNING] if len(head) >= _SHORTEST_LINE}
    for line, head in zip(lines, heads, strict=True):
        if head in places:
            places[head].append(line.order)
    before = failing[0].order
    once = [
        each
        for each in places.values()
        if each[0] < before < each[-1] and (len(each) == 1 or each[1] > before)
    ]
    if len(once) < 2:
        return 0
    first, second = once[:2]
    apart = second[0] - first[0]
    found = 0
    for order in first[1:]:
        again = any(0 < other - order <= apart for other in second)
        ended = any(found <= line.order < order for line in failing)
        found = order if again and ended and order - found >= _SHORTEST_RUN else found
    return found


def find_last_traceback(upward: Iterator[Line]) -> Sequence[Line]:
    """Return the traceback that ends these lines, which come last first, from the line above its heading."""
    shown = list[Line]()
    for line in upward:
        shown.append(line)
        if not line.text[:1].isspace():
            break
    ended = bool(shown) and HEADER.match(shown[-1].text)
    return [next(upward, shown[-1]), *reversed(shown)] if ended else ()


def shows_caught(shown: Sequence[Line]) -> bool:
    """Whether a traceback starts in a function that caught it, not in a module, a library or Hydra's cut."""
    outermost = ParsedException("", "", shown[1], parse_frames(shown, 1)[:1]).location if shown else None
    return outermost is not None and outermost.function != "<module>" and _CUT_BY_HYDRA not in shown[0].text


def ends_script(shown: Sequence[Line]) -> bool:
    """Whether a traceback starts in a script, or in what runs a module as one: its process ended by it."""
    frame = shown[2].text if len(shown) > 2 else ""
    ends = _IN_SCRIPT.match(frame) is not None or frame.startswith('  File "<stdin>"')
    return ends and not _OF_ANOTHER.search(shown[0].text)
