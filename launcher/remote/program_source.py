"""How a program travels to a host: as source, compressed, over stdin to one command for all."""

import zlib
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from preflight import regex as re

EXIT_OLD_PYTHON = 86  # the bootstrap's exit status on a Python that is too old; stderr then holds its version

_LEVEL = 6  # the last per cent of size would take three times as long, which is felt with one host

_TOP = Path(__file__).parents[2]
_ON_HOST = _TOP / "launcher" / "onhost"
_SHARED = ("answer", "event_file", "exit_status", "nvml", "procfs", "run_cgroup")
"""Modules of launcher/onhost/ that travel with every program that imports them, beside its own modules."""

_SHARED_IMPORT = re.compile(rf"^( *from )\.(\.*)({'|'.join(_SHARED)}) import ", re.MULTILINE)

_PROBES = ("cgroup_folder", "claim_files", "commands", "driver_library", "namespaces")
_PROBE_IMPORT = re.compile(rf"^( *from )preflight\.probes\.({'|'.join(_PROBES)}) import ", re.MULTILINE)
"""A module of the agent that imports no other one travels with every program whose modules import it."""

_DOCSTRING = re.compile(r'^( *)(?:\Ar)?"""[^"\\]*(?:(?:\\.|"(?!""))[^"\\]*)*"""$', re.MULTILINE)

# The whole command: one line, and no single quote, backslash or "!", for login shells differ in how they read
# those (and csh cannot quote a line break). What it executes comes on stdin, one line of Python first.
_BOOTSTRAP = 'exec(open(0,"rb",0,closefd=False).readline())'

ISOLATED = "-I"
"""No module from the working directory, PYTHON* or ~/.local: a stray json.py in a user's home must not run.

Nothing that the command itself does could take the place of this option: Python 3.13 imports `linecache` from
the working directory before the first statement of `-c`. Python 2 does not have it, and says so.
"""

ARRIVES_S = 600  # for a program to arrive: sshd does not notice for hours that a client is gone

# That first line, written out. Raw reads only: what follows on stdin is the program's, and a buffer would
# take it too. It compiles on every Python that has -I, so that an old one is distinguished from a broken one.
_LOADER = """\
import sys
if sys.version_info < (3, 9):
    sys.stderr.write(sys.version.split()[0])
    sys.exit({exit_old_python})
import signal
import zlib
signal.alarm({arrives_s})
stdin = open(0, "rb", 0, closefd=False)
size, data = int(stdin.readline()), b""
while len(data) < size:
    part = stdin.read(size - len(data))
    if not part:
        sys.exit("gpulaunch: {name} did not arrive whole")
    data += part
signal.alarm(0)
exec(compile(zlib.decompress(data), "{name}", "exec"), {{"__name__": "__main__"}})
"""


@cache
def read_program_source(name: str) -> bytes:
    """Return a program as one source text: launcher/onhost/NAME.py, or the folder whose main.py runs."""
    door = _ON_HOST / name / "main.py"
    if not door.exists():
        door = _ON_HOST / f"{name}.py"
        text = strip_docstrings(door)
        return bundle(name, door, ()) if _SHARED_IMPORT.search(text) else text.encode()
    return _bundle_folder(name, door)


@cache
def read_agent_source() -> bytes:
    """Return the agent as one source text."""
    return _bundle_folder("agent", _TOP / "preflight" / "probes" / "main.py")


def _bundle_folder(name: str, door: Path) -> bytes:
    left_out = {door, door.with_name("__init__.py")}
    return bundle(name, door, [path for path in sorted(door.parent.rglob("*.py")) if path not in left_out])


def bundle(name: str, door: Path, modules: Iterable[Path]) -> bytes:
    """Return a text that does, executed in any namespace, what the file `door` would do on the host.

    `modules` are the other files of the program, below the folder of `door`; relative imports reach them.
    Shared modules lie above that folder locally and in it on the host, where they are a level nearer.
    """
    main, folder = strip_docstrings(door), door.parent
    sources = {
        ".".join(path.relative_to(folder).with_suffix("").parts).removesuffix(".__init__"): strip_docstrings(
            path
        )
        for path in modules
    }
    wanted = {found[3] for text in (main, *sources.values()) for found in _SHARED_IMPORT.finditer(text)}
    if wanted and folder != _ON_HOST:
        main = rebase_shared(main)
        sources = {name: rebase_shared(text) for name, text in sources.items()}
    sources |= {name: strip_docstrings(_ON_HOST / f"{name}.py") for name in sorted(wanted)}
    probes = {found[2] for text in (main, *sources.values()) for found in _PROBE_IMPORT.finditer(text)}
    main = rebase_probes(main, name)
    sources = {name: rebase_probes(text, name) for name, text in sources.items()}
    sources |= {
        name: strip_docstrings(_TOP / "preflight" / "probes" / f"{name}.py") for name in sorted(probes)
    }
    ahead = strip_docstrings(_ON_HOST / "loader.py")
    # A traceback shows the line of each call: this one has to be short.
    return f"{ahead}\n\nTEXTS = {main!r}, {sources!r}\nrun_bundle({name!r}, *TEXTS, globals())\n".encode()


def rebase_shared(text: str) -> str:
    """Return a module's text with the shared modules imported from one package lower."""
    return _SHARED_IMPORT.sub(r"\1\2\3 import ", text)


def rebase_probes(text: str, module: str) -> str:
    """Return a module's text with modules of the agent imported from the top of its own program."""
    dots = "." * (1 + module.count("."))
    return _PROBE_IMPORT.sub(rf"\1{dots}\2 import ", text)


def strip_docstrings(path: Path) -> str:
    """Return a module's text without docstrings, a fifth of what would be sent; lines keep their numbers."""
    text = path.read_text(encoding="utf-8")
    return _DOCSTRING.sub(lambda match: f'{match[1]}""' + "\n" * match[0].count("\n"), text)


def build_bootstrap_argv(python: str, *args: str, site: bool = False) -> tuple[str, ...]:
    """Return the command whose stdin is a packed program; `args` become its sys.argv[1:].

    `site`: with the packages of that environment, and its sitecustomize. Others need nothing but the library.
    """
    return (python, ISOLATED, *(() if site else ("-S",)), "-c", _BOOTSTRAP, *args)


@cache
def compress_program(source: bytes, name: str = "gpulaunch") -> bytes:
    """Return a program as the command reads it, packed once for all; NAME is what tracebacks call it."""
    loader = _LOADER.format(name=name, exit_old_python=EXIT_OLD_PYTHON, arrives_s=ARRIVES_S)
    return b"exec(%a)\n" % loader + frame_program(source)


@cache
def frame_program(source: bytes) -> bytes:
    """Return a program as an agent that waits reads it: its length as a line, then the compressed text."""
    body = zlib.compress(source, _LEVEL)
    return b"%d\n%s" % (len(body), body)


def build_stdin_command(
    python: str, source: bytes, payload: bytes, *, name: str = "gpulaunch"
) -> tuple[tuple[str, ...], bytes]:
    """Return (argv, stdin) that run `source`, called `name`, on a host with `payload` on its stdin."""
    return build_bootstrap_argv(python), compress_program(source, name) + payload
