"""Signs of how a run went: it failed, continued or ended well; how firm a line's word is. Pure."""

import sys
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Sequence
from functools import cached_property

from preflight import regex as re
from preflight.diagnosis import run_ends
from preflight.diagnosis.line_kinds import list_line_kinds, mask_digits
from preflight.diagnosis.lines import RAY_WORKER, Line
from preflight.diagnosis.quoted_text import is_shown_text
from preflight.diagnosis.replacements import replaces_failed, says_instead
from preflight.diagnosis.report_leads import RESULT, is_only_name, says_ended
from preflight.diagnosis.run_ends import COUNTED_RUNS, DONE, FAILED, TESTS_PASSED, is_below_count
from preflight.diagnosis.run_starts import (
    RESUMES,
    ends_script,
    find_last_start,
    find_last_traceback,
    shows_caught,
    stage_starts,
    starts_again,
)
from preflight.diagnosis.signature_matcher import HARMLESS, JoinedLines, find_first_match, zero_numbers
from preflight.diagnosis.signatures.exit_messages import NOT_FOUND_IN_WORDS
from preflight.diagnosis.signatures.model import Alternative, CausalDepth
from preflight.diagnosis.step_counters import count_on, get_turn_words, is_rising, parse_steps
from preflight.diagnosis.tracebacks import LONGEST_TRACEBACK
from preflight.diagnosis.warning_lines import IS_EXCEPTION, LONGEST, is_warning_line

_LAUNCHER_FAILED = re.compile(
    r"ChildFailedError|^\S+ FAILED$|exits with return code|Exited with exit code|core dumped|^Killed\b(?! (?!by )[a-z\d])|died with <Signals|exitcode\s*:\s*-?[1-9]|\bFAILED +[1-9]\d*:[01]$"
)
# torch's agent, whose ranks it may have started again before, and a sweep.
_SUCCEEDED = re.compile(rf"worker group successfully finished|WorkerState\.SUCCEEDED|{COUNTED_RUNS.pattern}")
# torch's agent has ended all its workers when it says this.
_AGENT_FAILED = re.compile(r"\bfailed \(exitcode: -?\d+\) local_rank: ")
# A scheduler lets processes of a job that it ends continue until they have saved; a resumed job continues.
_ENDS_JOB = re.compile(
    r"slurmstepd\S{0,60}: error: \*{3} |PBS: job killed|TERM_RUNLIMIT|exceeded wallclock limit"
)
_STOPPED = frozenset({"terminated", "sighup"})
_MOVES_ENOUGH, _STEPS_BEHIND_WORDS, _MANY_TURNS = 3, 2, 100
_STEPS, _EVERY_TURN = ("moves", "steps"), ("moves", "steps", "loops")
_BUFFER = 8192  # characters that Python keeps back before it writes to a file or a pipe
_MANY_OUTLIVED, _BELOW, _NEAR = 10, 4, 16
FULL_BAR = re.compile(r"\| *([3-9]|\d\d+)/\1 \[")
_NO_PROGRAM = re.compile(
    rf"command not found$|{NOT_FOUND_IN_WORDS}|' is not recognized as an internal or external command,"
)
_NO_SCRIPT = re.compile(r"\S*python\S*: can't open file ")
_GAVE_UP = re.compile(
    rf"{_NO_PROGRAM.pattern}|^(?:g?make|ninja)\b|^\[\d+\][-+]? +Exit |^(?:FAILED|ERROR) \S{{1,200}}::|^=+ (?:\d+ \w+, )*\d+ (?:failed|errors?)\b|(?<!of )\baborting (?:the )?(?:training|run|job)\b"
)
_UNBUFFERED = re.compile(
    rf"{_NO_PROGRAM.pattern}|^(?:g?make|ninja)\b|^\[E.{{0,70}}\b(?:socket|TCPStore)\.|: E \S+\.cc:\d+\] "
)
"""Words of a shell, make, ninja, torch's store or TensorFlow's C++, logged before what the process prints."""
_SAID_BY_TRAINERS = re.compile(
    r"['\"]train_runtime['\"]\s*:|Trainer\.fit` stopped: `max_\w+=|worker group successfully finished|WorkerState\.SUCCEEDED|exits successfully|All \d+ ranks? finished|[Ss]tate: COMPLETED|\bCOMPLETED +0:0$|^Updated phase \w+ -> Succeeded|\bFinished in state Completed\(|Normal termination \(return value 0\)|\d+ epochs completed in|^Trial \S+ completed after "
    rf"|{TESTS_PASSED.pattern}"
)
"""What a trainer, launcher or scheduler says of a run that was done, and no script echoes after a command."""
_DONE_OF_TRAINING = re.compile(rf"^(?!(?i:(?:all )?done)\.?$)|{_SAID_BY_TRAINERS.pattern}")
# What is still to be done when a training is, and that it is done.
_ENDED = re.compile(r"(?i)\b(?:saved|done|finished|completed?|uploaded|pushed)\b")
_GOES_ON = re.compile(
    rf"{_ENDED.pattern}|\b(?:starting|beginning|evaluating|running|saving|uploading|pushing|testing|merging|exporting)\b"
    r"|^\W*(?:now |next\b.{0,3})?\b(?!exit|quit|end|shut|clos|clean|empty|free|wait|hold|idl|paus|keep|leav|hang|destroy|dropp|drain|dump|discard|finish|final|terminat|abort|stopp|halt|kill|sync|flush|releas|remov|delet|reset|bypass|skip|ignor|cancel|unload|unmount|unregister|unwrap|deactivat|dealloc|deregist|detach|dispos|disabl|disconnect|revert|hand|join|tear|send|sleep|train|warn|miss|serv|listen|host|show|display|learn|receiv|catch|dur|us|\w*th|str|tim|remain|exist|pend|logg|print|report|rat)[a-z]{3,12}ing\b|\b(?:stage|phase) [2-9]\b|^next: "
)
# What a script says that caught an exception, if steps come behind it: a shell may print such words, too.
_TRIES_ANOTHER = re.compile(
    r".{0,200}\b(?:[Tt]rying (?:an?|the|with|from)|[Rr]etry(?:ing)? (?:with|from)|[Ff]all(?:ing|s)? back to|[Hh]alving|[Rr]educing|[Rr]everting to|stays? (?:here|local)|using (?:the |a |an )?(?:cached|previous|last|local))\b"
)
_SAYS_FAILED = re.compile(
    r"(?i)\bfail|\bnot (?:available|found|installed|supported|work)|\bunavailable|\berror|\bcould ?n[o']t|\bcan(?:no|')t\b"
)
# What a program logs as its end, in an order that no buffer changes, and an error that it logs before.
_SUCCESS = re.compile(rf"{_SAID_BY_TRAINERS.pattern}|\d:\d\d:\d\d.{{1,200}}\bcompleted successfully\b")
_LOGGED_ERROR = re.compile(
    r"(?!.{0,300}\b(?i:(?:train|experiment|run|job|pipeline|main)\w* (?:has )?(?:failed|crashed|aborted)|fatal))\S{0,12}\d.{0,40}\d:\d\d:\d\d.{1,80}\bERROR\b"
)
_ECHOED = 12  # lines behind an exception in which such words are an echo of `time` or loggers


class RunProgress:
    """How a run went, as far as its lines say: where it failed, made steps, and said that it was done."""

    def __init__(self, lines: Sequence[Line]) -> None:
        self.lines = lines
        self._rows: defaultdict[tuple[tuple[str, str, int | None], str], list[int]] = defaultdict(list)
        self.done: list[int] = []
        said = list[Line]()
        for line, kind in zip(lines, list_line_kinds(lines), strict=True):
            if kind == "failed":
                said.append(line)
            elif kind == "done" and (line.text[:2] != "OK" or is_below_count(lines, line.order)):
                self.done.append(line.order)
            elif kind:
                at_once = kind == "steps" and RAY_WORKER.match(line.label)  # Ray copies lines so
                self._rows[line.stream, "moves" if at_once else kind].append(line.order)
        self._moves, self._steps = (  # steps may have been in a buffer when the process died
            sorted(at for (_, of), row in self._rows.items() if of == kind for at in row) for kind in _STEPS
        )
        self._last_step = max((row[-1] for row in (self._moves, self._steps) if row), default=-1)
        self._result = max((line.order for line in lines[-2:] if RESULT.match(line.text)), default=-1)
        failed = JoinedLines([line.text[:LONGEST] for line in said]).list_matches(FAILED)
        failed -= JoinedLines([line.text for line in said]).list_matches(HARMLESS)
        ended = (each for at, each in enumerate(said) if at not in failed)  # by a status of 0
        self.done = sorted((*self.done, *(each.order for each in ended if DONE.is_in(each.text))))
        self.failing = [
            said[at]
            for at in sorted(failed)
            if not (is_shown_text(lines, said[at]) or self.has_outlived_words(said[at], FAILED.alternatives))
        ]
        self.start = find_last_start(lines, self.failing, sorted((*self._moves, *self._steps)))
        of_run = [line for line in self.failing if line.order >= self.start]
        self.failing = run_ends.leave_out_stops(of_run, self.was_stopped_when_done)
        self.failing = [] if run_ends.lacks_tools_alone(lines, self.failing) else self.failing

    @property
    def advanced(self) -> bool:
        """Whether the run made a step or said that it was done."""
        return self.has_made_steps() or bool(self.done)

    def has_made_steps(self, after: int = -1) -> bool:
        """Whether the run made a step behind a line."""
        return self._last_step > after

    def has_launcher_failed(self, after: int = -1) -> bool:
        """Whether a launcher reports a failure, at a line or behind it."""
        return any(line.order >= after and _LAUNCHER_FAILED.search(line.text) for line in self.failing[-3:])

    def has_outlived(self, line: Line, enough: int = _MOVES_ENOUGH) -> bool:
        """Whether a line's process seems to make steps behind it, and nothing shows that it failed later."""
        if self.ends_job(line.order) or (self.failing and self.failing[-1].order > line.order + _ECHOED):
            return False
        return self.has_stepped(line, enough)

    def has_outlived_words(self, line: Line, alternatives: Sequence[Alternative]) -> bool:
        """Whether a line only names a failure (by patterns, or all of it) that the run outlived.

        Its process made steps behind it, for what it prints so is in order, or the log ends in a result.
        """
        if line.order >= max(self._result, self._last_step) or self.ends_job(line.order):
            return False
        if not (is_only_name(line.text, alternatives) or says_instead(line.text)):
            return False
        ended = says_ended(line.text, alternatives) and not says_instead(line.text)
        enough = _MOVES_ENOUGH if ended else _STEPS_BEHIND_WORDS
        return (self._result > line.order and not ended) or self.has_stepped(line, enough)

    def was_done(self, line: Line, *, by_script: bool = False) -> bool:
        """Whether a trainer (`by_script`: or a script) said just above that it was done; no turn since."""
        near = range(max(0, line.order - _NEAR), line.order)
        by = _DONE_OF_TRAINING if by_script else _SAID_BY_TRAINERS
        said = [at for at in near if at in self.done and by.search(self.lines[at].text)]
        if not said:
            return False
        turned = any(bisect_left(row, said[-1]) < bisect_left(row, line.order) for row in self._rows.values())
        return not turned and not any("it/s" in each.text for each in self.lines[said[-1] + 1 : line.order])

    def was_stopped_when_done(self, line: Line) -> bool:
        """Whether a line says that the run was stopped from outside when its training was done."""
        row = find_first_match(line.text)
        if row is None or row.slug not in _STOPPED or not self.was_done(line, by_script=True):
            return False
        behind = self.lines[max(at for at in self.done if at < line.order) + 1 : line.order]
        said = [_ENDED.search(each.text) is not None for each in behind if _GOES_ON.search(each.text)]
        return said[-1:] != [False]

    def has_stepped(self, line: Line, enough: int = _MOVES_ENOUGH) -> bool:
        """Whether the process of a line made steps behind it, however it ended."""
        return len(self._turns(line, _STEPS, line.order + 1)) >= enough

    def has_turned(self, line: Line, enough: int, before: int, *, alike: bool) -> bool:
        """Whether the process of a line made steps, or turns of other loops, behind it up to a place.

        `alike`: where it made steps above the line, only turns like those above count.
        """
        made = alike and bool(self._turns(line, _STEPS, 0, line.order, 1))
        others = self._turns(line, _EVERY_TURN[2:], line.order, before)
        steps = self._turns(line, _STEPS, line.order, before)
        return len(steps) + len(self._like_above(line.order, others) if made else others) >= enough

    def _turns(
        self, line: Line, kinds: Sequence[str], first: int, end: int = sys.maxsize, most: int = _MANY_TURNS
    ) -> list[int]:
        """Return the first turns of each kind that the process of a line made between two places."""
        rows = [self._rows.get((line.stream, kind), []) for kind in kinds]
        firsts = [row[bisect_left(row, first) : bisect_left(row, end)][:most] for row in rows]
        return [at for row in firsts for at in row]

    def _like_above(self, place: int, row: Sequence[int]) -> list[int]:
        """Return those turns that start with the words of one that the same process made above a place."""
        return [at for at in row if self._first_like[self._turn(at)] < place]

    @cached_property
    def _first_like(self) -> dict[object, int]:
        """The first turn of each process with the same words."""
        first: dict[object, int] = {}
        for at in sorted(at for row in self._rows.values() for at in row):
            first.setdefault(self._turn(at), at)
        return first

    def _turn(self, at: int) -> object:
        return self.lines[at].stream, get_turn_words(self.lines[at].text)

    def has_continued(self, after: int) -> bool:
        """Whether the run plainly continued to the end behind a line (its `order`).

        Steps count only from bars and stamped lines, which are written at once; what a dying process had in
        its buffer is printed behind its own traceback. A script's "done" does not undo a launcher's "failed",
        nor do the steps of another run that writes into the same log.
        """
        at = self.lines[after : after + 1]
        if any(order > after and _SUCCEEDED.search(self.lines[order].text) for order in self.done):
            return True
        ended = any(map(self.ends_script, at))
        over = self.has_launcher_failed(after)
        died = ended or over or any(map(_says_ended, at))
        stage = next((start for start in self._stages if start > after), None) if at and died else None
        if self.has_moved(after, stage or sys.maxsize):
            return True
        if ended or stage:
            return self._tried_another(after) or (not (over or stage) and self._resumed(after))
        unbuffered = any(_UNBUFFERED.search(line.text) and self.has_outlived(line) for line in at)
        return unbuffered or (not over and self._done_after(after))

    @cached_property
    def _stages(self) -> Sequence[int]:
        return stage_starts(self.lines)

    def _done_after(self, after: int) -> bool:
        """Whether the run said that it was done, in more words than a shell script's when Python has died."""
        said = [order for order in self.done if order > after]
        if after < 0 or not said:
            return bool(said)
        text = self.lines[after].text
        raised = IS_EXCEPTION.match(text)
        row = find_first_match(text) if FAILED.is_in(text) and not is_warning_line(text) else None
        fails = row is not None or _GAVE_UP.search(text)
        behind = sum(len(each) - bisect_right(each, after) for each in (self._moves, self._steps))
        started = row is not None and row.slug == "scheduler-launch" and behind >= _MOVES_ENOUGH
        lived = self._tried_another(after) if raised else started or self.has_stepped(self.lines[after])
        if lived or not (raised or fails) or (raised and max(said) > after + _ECHOED):
            return True
        ends = _SUCCESS if _LOGGED_ERROR.match(self.heading(self.lines[after])) else _SAID_BY_TRAINERS
        return any(ends.search(self.lines[order].text) for order in said)

    def _resumed(self, after: int) -> bool:
        """Whether a run that had made steps resumed behind a line, and was done then."""
        last = self.done[-1] if self.done else 0
        near = (each for each in self.lines[after + 1 : last] if "esum" in each.text)
        resumed = next((each.order for each in near if RESUMES.search(each.text)), last)
        made = sorted((*self._moves, *self._steps))
        behind = bisect_left(made, last) - bisect_left(made, resumed)
        return bisect_left(made, after) > 0 and behind >= _MOVES_ENOUGH

    def _tried_another(self, after: int) -> bool:
        """Whether its process says below what it does instead, and made steps, or a function caught it."""
        near = [line.text for line in self.lines[after + 1 : after + _NEAR]]
        shown = [line.text for line in self._traceback_above(self.lines[after])]
        beside, of_it = (*near[:1], *shown[:1]), " ".join(each for each in shown if '  File "' not in each)
        said = starts_again(self.lines, after, near) or any(map(_TRIES_ANOTHER.match, beside))
        below = self.lines[after + 1 : after + 2]
        own = [each.text for each in below if each.stream == self.lines[after].stream]
        if not said and any(map(_SAYS_FAILED.search, own)):
            said = replaces_failed(f"{of_it} {self.lines[after].text}", own, of_it)
        left_out = any(map(says_instead, own)) and self.was_caught(self.lines[after])
        return left_out or (said and self.has_stepped(self.lines[after]))

    def text_from(self, lines: Sequence[Line]) -> str:
        """Return lines with what is right below each: messages of several lines end in it."""
        orders = dict.fromkeys(order for line in lines for order in range(line.order, line.order + _BELOW))
        return "\n".join(self.lines[order].text for order in orders if order < len(self.lines))

    def ends_job(self, order: int) -> bool:
        """Whether a line says that a scheduler ended the job, and none behind it that it was resumed."""
        said = self.lines[order].text if 0 <= order < len(self.lines) else ""
        return _ENDS_JOB.search(said) is not None and self._last_resumed < order

    @cached_property
    def _last_resumed(self) -> int:
        return next((line.order for line in reversed(self.lines) if RESUMES.search(line.text)), -1)

    def has_moved(self, after: int, before: int) -> bool:
        """Whether steps were made between two lines, the first not about a scheduler that ended the job.

        One is enough behind the last of many lines of one format, if the run outlived the others.
        """
        if after < 0 or self.ends_job(after):
            return after < 0 and bisect_left(self._moves, before) >= _MOVES_ENOUGH
        own, *others = self._moves_beside(self.lines[after])
        rows = [own, *others, self._flushed(after)]
        made = sum(max(0, bisect_left(row, before) - bisect_right(row, after)) for row in rows)
        # A bar is drawn again when a process ends, but not before its first turn; a paste may lack that.
        began = [] if not after or self._turns(self.lines[after], _STEPS, 0, after, 1) else own
        full = any(FULL_BAR.search(self.lines[at].text) for at in began if after < at < before)
        return made >= _MOVES_ENOUGH or full or (made > 0 and self._outlived_alike(after))

    def _flushed(self, after: int) -> list[int]:
        """Return the steps that a process surely made where its lines are.

        So it is if it caught a line's exception, printed some before, and less text than a buffer holds (it
        keeps none back); if it says what it does instead; or if torch's agent had started another.
        """
        line = self.lines[after]
        if _AGENT_FAILED.search(line.text):
            steps = [] if self.has_launcher_failed(after + 1) else sorted((*self._moves, *self._steps))
            steps = self._like_above(after, steps)
            return [at for at in steps if self.lines[at].stream[:2] == line.stream[:2]]
        near, shown = self.lines[after + 1 : after + _NEAR], self._traceback_above(line)
        said = [each.text for each in near if each.text and each.stream == line.stream] or [""]
        ended, resumes = _ENDS_JOB.search(line.text), RESUMES.search(said[0])
        replaced = IS_EXCEPTION.match(line.text) is not None and replaces_failed(
            line.text, said, *(each.text for each in shown[2:3])
        )
        kept_back = self._filled.get(line.stream, after) < after and not ((ended and resumes) or replaced)
        if kept_back or self.has_launcher_failed(after):
            return []
        heads = [*shown[:1], *(() if IS_EXCEPTION.match(line.text) else (line,))]
        instead = replaced or says_instead(said[0]) or any(says_instead(each.text) for each in heads)
        caught = instead or shows_caught(shown)
        kinds = _EVERY_TURN[1 : 2 + instead]
        made = self._turns(line, kinds, after, most=_NEAR)
        tried = replaced or (caught and self._tried_on(line))
        behind = made if tried else self._like_above(after, made)
        row = sorted((*self._turns(line, kinds, 0, after, _BUFFER), *behind))
        if ended or resumes:
            return row
        return row if caught and is_rising(parse_steps(self.lines[order] for order in row)) else []

    def _tried_on(self, line: Line) -> bool:
        """Whether a process wrote the same below and above a traceback but for a number: it tries another."""
        start = line.order - max(0, len(self._traceback_above(line)) - 1)
        own = [
            each
            for each in self.lines[max(0, start - _NEAR) : line.order + _NEAR]
            if each.stream == line.stream and each.text[:1].isalpha() and not IS_EXCEPTION.match(each.text)
        ]
        begun = {zero_numbers(each.text): each.text for each in own if each.order < start}
        below = (each.text for each in own if each.order > line.order)
        return any(begun.get(zero_numbers(text), text) != text for text in below)

    def was_caught(self, line: Line) -> bool:
        """Whether a traceback that ends in a line starts in a function that caught its exception."""
        return shows_caught(self._traceback_above(line))

    def heading(self, line: Line) -> str:
        """Return what is above a line's traceback: Python names the thread or child that ended by it."""
        return "".join(each.text for each in self._traceback_above(line)[:1])

    def ends_script(self, line: Line) -> bool:
        """Whether a script ended by a line: by its traceback, or because Python did not find it."""
        return _NO_SCRIPT.match(line.text) is not None or ends_script(self._traceback_above(line))

    def _traceback_above(self, line: Line) -> Sequence[Line]:
        stream, near = line.stream, self.lines[max(0, line.order - LONGEST_TRACEBACK) : line.order]
        return find_last_traceback(each for each in reversed(near) if each.stream == stream)

    @cached_property
    def _filled(self) -> dict[object, int]:
        """The line with which each process has written what a buffer holds."""
        written: Counter[object] = Counter()
        filled: dict[object, int] = {}
        for line in self.lines:
            written[line.stream] += len(line.text) + 1
            if written[line.stream] >= _BUFFER:
                filled.setdefault(line.stream, line.order)
        return filled

    def _outlived_alike(self, after: int) -> bool:
        text = mask_digits(self.lines[after].text)
        alike = [line.order for line in self.failing if mask_digits(line.text) == text]
        return len({bisect_right(self._moves, order) for order in alike if order <= after}) > _MANY_OUTLIVED

    def _moves_beside(self, line: Line) -> list[list[int]]:
        """Return the steps that show that the process of a line, or one of Ray's that replaced it, continues.

        They are its own, and those of its peers where it made none before and the line does not say that it
        ended; where a script ended by its traceback, only those that count on.
        """
        own = self._rows.get((line.stream, "moves"), [])
        if self.ends_script(line):
            alike = self._like_above(line.order, own)
            return [alike if count_on([self.lines[order] for order in alike], line.order) else []]
        kind = line.label.partition(" pid=")[0] + " pid=" if RAY_WORKER.search(line.label) else "\n"
        other = not _says_ended(line) and (not own or own[0] > line.order)
        of = [(at[1], row) for (at, of), row in self._rows.items() if of == "moves" and at != line.stream]
        return [own, *(row for at, row in of if (row[0] > line.order if at.startswith(kind) else other))]


def _says_ended(line: Line) -> bool:
    """Whether a line says that a process ended."""
    row = find_first_match(line.text)
    return row is not None and row.depth is CausalDepth.ENDING
