"""What single lines of a log weigh, what is read of it in other forms, and what is left of a long one."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from preflight.diagnosis.condensed_log import LogCondenser
from preflight.diagnosis.lines import KeptLine, Line
from tests.preflight.diagnosis_logs import AROUND_WHOLE_LOGS, SEEN_THROUGH, blocks
from tests.preflight.log_lines import read_lines

FORMS = {**SEEN_THROUGH, **AROUND_WHOLE_LOGS}
del FORMS["behind a long run"]
_TEXTS = ("  cau", "  fix")  # what a cause is called, which goes with it
_PRINTED = """\
Loading checkpoint shards: 100%|##########| 2/2 [00:01<00:00,  1.6it/s]
step 10 loss 2.3125 lr 1e-4
  warnings.warn(
Traceback (most recent call last):
  File "/home/u/train.py", line 7, in <module>
    model(batch)

  File "/home/u/net.py", line 31, in forward
    return self.head(x)
           ^^^^^^^^^^^^
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB
W0301 10:00:00.000000 411 torch/distributed/elastic/agent/server/api.py:900] Sending 412 signal SIGTERM
"""


def blanked_transcript(log: str, log_transcript: Callable[[str], str]) -> str:
    """Return what a diagnosis comes to without one of the lines, for each that changes something."""
    lines = log.split("\n")
    own = log_transcript(log).split("\n")
    rows = []
    for at, line in enumerate(lines):
        if line.strip():
            without = log_transcript("\n".join([*lines[:at], "", *lines[at + 1 :]])).split("\n")
            came = [f"+ {row.strip()}" for row in without if row not in own]
            went = [f"- {row.strip()[:24]}" for row in own if row not in without and row[:5] not in _TEXTS]
            rows += [f"{at + 1}: {'; '.join([*came, *went])}"] if came or went else []
    return "\n".join(rows)


def form_transcript(form: str) -> str:
    """Return the lines that are read of one log in a form, where they are not those of the plain log."""
    plain = set(_rows(read_lines(_PRINTED)))
    return "\n".join(row for row in _rows(read_lines(FORMS[form](_PRINTED))) if row not in plain)


def _rows(lines: Iterable[Line]) -> Iterator[str]:
    for line in lines:
        words = [str(line.number), line.label, "" if line.rank is None else f"rank {line.rank}"]
        words += ["" if line.at is None else f"at {line.at:g}"]
        yield f"{' '.join(filter(None, words))}: {line.text!r}"


def _words(count: int, word: str = "line {} says") -> Iterator[str]:
    """Yield lines of which no two have one shape."""
    letters = str.maketrans("0123456789", "qwertyuiop")
    return (word.format(f"{7919 * number:b}".translate(letters)) for number in range(count))


def _mixed(count: int) -> Iterator[str]:
    kinds = ("step {n} loss {n}.5", "eval {n}", "NCCL INFO channel {n}/{n}", "saved checkpoint-{n}")
    for n in range(count):
        yield kinds[n % 7 % 4].format(n=n)
        yield from (f"shape {chr(97 + n // 100)} {n}",) * (n % 5 == 0)


LONG_LOGS: dict[str, Iterable[str]] = {
    "one shape": [f"step {n}" for n in range(3000)],
    "few kinds": list(_mixed(2400)),
    "new shapes within": [f"{'a failed try' if n == 900 else 'step'} {n}" for n in range(2000)],
    "unlike": list(_words(1300)),
    "unlike and long": list(_words(400, "word {} " + "x" * 1000)),
    "unlike events": list(_words(3300, "{} RuntimeError")),
    "unlike events and long": list(_words(4500, "{} RuntimeError " + "y" * 400)),
    "unlike, then events": [*_words(1100), *_words(2300, "{} RuntimeError")],
    "many repeated shapes": [f"{text} {n}" for n in range(30) for text in _words(620)],
    "repeated among unlike": [
        row for pair in zip(_words(1200), _words(1200, "step {}"), strict=True) for row in pair
    ],
    "returns": ["".join(f"\r{n}%|##| {m}" for m in range(40)) for n in range(40)],
}


def condensed_transcript(name: str, block: int) -> str:
    """Return which lines are left of a long log that is fed in blocks, as ranges, and what they stand for."""
    data = "".join(f"{line}\n" for line in LONG_LOGS[name]).encode()
    condenser = LogCondenser()
    for start in range(0, len(data), block):
        condenser.feed(data[start : start + block])
    return _ranges(condenser.lines())


def _ranges(lines: tuple[KeptLine, ...]) -> str:
    """Write runs of evenly spaced numbers as `first-last/step`."""
    rows = []
    counted = Counter(line.stands_for for line in lines if line.stands_for > 1)
    numbers = [line.number for line in lines]
    at = 0
    while at < len(numbers):
        step = numbers[at + 1] - numbers[at] if at + 1 < len(numbers) else 0
        end = at + 1
        while end < len(numbers) and numbers[end] - numbers[end - 1] == step:
            end += 1
        rows.append(f"{numbers[at]}-{numbers[end - 1]}/{step}" if end - at > 1 else str(numbers[at]))
        at = end
    size = sum(len(line.text) for line in lines)
    stand = [f"{count} stand for {number} each" for number, count in sorted(counted.items())]
    return "\n".join([f"{len(lines)} lines of {size} characters: {' '.join(rows)}", *stand])


_OF_A_KIND = 2
"""How many judged logs of one cause and confidence are tried without each of their lines."""


def changed_logs() -> dict[str, str]:
    """Return {heading: log} of the logs whose lines are left out one by one."""
    judged: list[tuple[str, str]] = []
    kinds: Counter[str] = Counter()
    for heading, log in blocks("judged.txt"):
        kind = heading.partition(" — ")[0]
        kinds[kind] += 1
        judged += [(heading, log)] * (kinds[kind] <= _OF_A_KIND)
    return dict([*blocks("composed.txt"), *judged, *blocks("healthy.txt")])
