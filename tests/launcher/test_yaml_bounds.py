"""A YAML file that is small on disk stays small in memory: every door through which gpulaunch reads one."""

import re
import resource
import subprocess
import sys
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import pytest

from launcher.config.host_ranges import expand_ranges
from launcher.config.inventory import Inventory
from launcher.config.inventory_reader import load_inventory
from launcher.config.run_config import load_run_config
from launcher.errors import BadInput, ConfigError

pytestmark = pytest.mark.slow

MOST_MIB = 500
LAUGHS = "".join(f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]\n" for n in range(1, 20))
CHAIN = "".join(f"c{n}: &c{n} {{a: *c{n - 1}}}\n" for n in range(1, 2000))
AGAIN = "g{0}, '@g{0}', "
LONG_KEY = "k" * 300_000
LONG_TEXT = "a," * 200_000
TEXTS = {
    "brackets": ("hosts: " + "[" * 50_000, "nested too deep"),
    "braces": ("hosts: " + "{" * 50_000, "nested too deep"),
    "dashes": ("- " * 50_000, "nested too deep"),
    "indents": ("\n".join(" " * n + "a:" for n in range(1000)), "nested too deep"),
    "aliases under a long key": (
        f"x: &x [{'a,' * 999}]\nhosts:\n  ? {LONG_KEY}\n  : [{'*x,' * 90}]\n",
        "a key has 300000 characters, expected at most 200",
    ),
    "a list under a long key": (f"? {LONG_KEY}\n: [{'a,' * 90_000}]\n", "a key has 300000 characters"),
    "many values under a long key": (
        f"{'k' * 199}: {{{'l' * 199}: [{'a,' * 90_000}]}}\n",
        "too many values under long keys",
    ),
    "laughs": ("l0: &l0 [a]\n" + LAUGHS, "its aliases expand to more than 100000 values"),
    "a chain of aliases": ("c0: &c0 {a: b}\n" + CHAIN, "an alias refers to itself"),
    "an alias of itself": ("hosts: &a [*a, *a]\n", "an alias refers to itself"),
    "merges": (
        "m0: &m0 {a: b}\n" + "".join(f"m{n}: &m{n} {{<<: [*m{n - 1}, *m{n - 1}]}}\n" for n in range(1, 40)),
        "nested too deep",
    ),
    "digits": (f"a: 1\nhosts: 0x{'f' * 9000}\n", "a number of more than 300 digits"),
    "a character beyond Unicode": ('hosts: "\\U0011FFFF"\n', "not valid YAML"),
    "values": ("hosts: [" + "a," * 300_000 + "]", "more than 100000 values"),
    "anchors": ("- &a\n" * 10_000, "found duplicate anchor"),
    "unknown keys": ("hosts:\n" + "".join(f"  n{n}: {{adres{n}: x}}\n" for n in range(5_000)), "50 mistakes"),
    "groups of groups": (
        "hosts: {'a[1-9000]': }\ngroups:\n  g0: [all]\n"
        + "".join(f"  g{n}: [{AGAIN.format(n - 1) * 9}]\n" for n in range(1, 20)),
        "",
    ),
    "many groups of all": (
        "hosts: {'a[1-9000]': }\ngroups:\n" + "".join(f"  g{n}: [all]\n" for n in range(9000)),
        "more than 200000 members in all groups",
    ),
    "a ladder of groups": (
        "groups:\n" + "".join(f"  g{n}: [g{n + 1}]\n" for n in range(3000)) + "  g3000: []\n",
        "groups deep",
    ),
    "many ranges": (
        "hosts:\n" + "".join(f"  n{n}-[1-10000]:\n" for n in range(1000)),
        "more than 10000 hosts in one file",
    ),
    "overlapping ranges": ("hosts:\n" + "".join(f"  n[{n}-10000]:\n" for n in range(1, 1000)), "50 mistakes"),
    "jumps": (
        f"j: &j '{LONG_TEXT}'\nhosts:\n" + "".join(f"  n{n}: {{jump: *j}}\n" for n in range(3000)),
        "has 400000 characters, expected at most 4096",
    ),
    "more jumps": ("hosts: {a: {jump: [" + ("b," * 999 + "b, ") * 15 + "]}}\n", "more than 8 jump hosts"),
}


@pytest.mark.parametrize("read", ["load_inventory", "load_run_config"])
def test_a_hostile_file_is_refused_within_bounds(tmp_path: Path, read: str) -> None:
    texts = TEXTS if read == "load_inventory" else dict(islice(TEXTS.items(), 12))
    for name, (text, _) in texts.items():
        (tmp_path / f"{name}.yaml").write_text(text)
    done = subprocess.run(
        [sys.executable, __file__, read, *(str(tmp_path / f"{name}.yaml") for name in texts)],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        env={"PYTHONPATH": str(Path(__file__).parents[2])},
    )
    said = done.stdout.split("\0")
    assert done.returncode == 0, done.stderr[-2000:] + str(said[-1:])
    assert len(said) == len(texts) + 1
    for (name, (_, words)), message in zip(texts.items(), said, strict=False):
        assert message.startswith("ConfigError") or not words, name
        assert words in message or read == "load_run_config", (name, message[:500])
        assert len(message) < 20_000, name
    assert int(said[-1]) < MOST_MIB


@pytest.mark.parametrize(
    "word",
    [
        *(
            "a[1-3,--]",
            "a[1-2-3]",
            "a[1--]",
            "a[/]",
            "a[1-3",
            "a]",
            "a[\u0661-\u0669\u0669\u0669\u0669\u0669]",
        ),
        *("a[1-3, 5-99999999]", "a[000000000000-000099999999]", "a[1-99999999/1]", "a[1-100]b[1-1000]"),
        *("a[1-9" + "9" * 30 + "]", "x" * 5000 + "[1-2]"),
    ],
)
def test_a_word_that_is_no_range_is_refused_before_it_is_expanded(word: str) -> None:
    with pytest.raises(BadInput, match=r"is not a range|means more than|is too long|is not a host"):
        Inventory().resolve([word])


def test_a_range_keeps_its_zeros_and_steps() -> None:
    assert expand_ranges("a[08-10]", {}) == ("a08", "a09", "a10")
    assert expand_ranges("a[1-7/3]b[1-2]", {}) == ("a1b1", "a1b2", "a4b1", "a4b2", "a7b1", "a7b2")
    with pytest.raises(BadInput, match='"!a2" has no hosts in front of it') as alone:  # a word of its own
        expand_ranges("!a2", {})
    assert alone.value.fix == "write both as one word: 'all!a2'"


READERS: dict[str, Callable[[str], object]] = {
    "load_inventory": lambda file: load_inventory(Path(file)),
    "load_run_config": load_run_config,
}


def main(read: str, *files: str) -> None:
    """Say what each file is told; the peak of memory last."""
    resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
    for file in files:
        try:
            READERS[read](file)
            message = "no error"
        except ConfigError as error:
            message = f"ConfigError {error.message}"
        sys.stdout.write(message + "\0")
        sys.stdout.flush()
    peak = re.search(
        r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text()
    )  # ru_maxrss counts whoever forked us
    assert peak is not None
    sys.stdout.write(str(int(peak[1]) >> 10))


if __name__ == "__main__":
    main(*sys.argv[1:])
