"""How a program travels to a host: as one source text, compressed over stdin to a one-line bootstrap."""

import re
import zlib
from functools import cache
from pathlib import Path

EXIT_OLD_PYTHON = 86
"""The bootstrap's exit status on a Python that is too old; stderr then holds its version."""

_LEVEL = 6
"""The last per cent of size would take three times as long, which is felt with one host."""

_TOP = Path(__file__).parents[1]
_PARTS = {
    "agent": "probes",
    "supervisor": "supervising",
    "early": "supervising",
    "receive": "receiving",
    "gauge": "measuring",
    "guard": "guarding",
    "rank": "ranking",
}
"""Programs of several modules, and the package beside each that holds the others."""

_DOCSTRING = re.compile(r'^( *)r?"""(?:[^"\\]|\\.|"(?!""))*"""$', re.MULTILINE)

# Reads "<length>\n<zlib bytes>" from stdin and runs it as a script; what follows on stdin is the script's.
# Runs on any Python, so that an old one is told apart from a broken one; one line, because csh cannot quote
# more. The working directory leaves sys.path: a stray json.py in somebody's home must not run.
_BOOTSTRAP = (
    "import sys,zlib;"
    f"sys.version_info<(3,9)and(sys.stderr.write(sys.version.split()[0]),sys.exit({EXIT_OLD_PYTHON}));"
    "sys.path[:]=[p for p in sys.path if p];"
    "r=sys.stdin.buffer;"
    "exec(compile(zlib.decompress(r.read(int(r.readline()))),{name!r},'exec'),{{'__name__':'__main__'}})"
)


@cache
def onhost_source(name: str) -> bytes:
    """Return launcher/onhost/NAME.py as one source text, with the modules it is made of."""
    return as_one_text(_TOP / "launcher/onhost", name, _PARTS.get(name))


@cache
def agent_source() -> bytes:
    """Return the agent as one source text."""
    return as_one_text(_TOP / "preflight", "agent", _PARTS.get("agent"))


def as_one_text(room: Path, name: str, parts: str | None) -> bytes:
    """Return a text that does, executed in any namespace, what ROOM/NAME.py would do there.

    `parts` is the package beside it that holds its other modules; relative imports reach them.
    """
    if parts is None:
        return room.joinpath(f"{name}.py").read_bytes()
    main = _bare(room / f"{name}.py")
    sources = {
        ".".join(path.relative_to(room).with_suffix("").parts).removesuffix(".__init__"): _bare(path)
        for path in sorted(room.joinpath(parts).rglob("*.py"))
    }
    ahead = _bare(_TOP / "launcher/onhost/modules.py")
    return f"{ahead}\n\nbegin({name!r}, {main!r}, {sources!r}, globals())\n".encode()


def _bare(path: Path) -> str:
    """Return a module's text without docstrings, a fifth of what would be sent; lines keep their numbers."""
    text = path.read_text(encoding="utf-8")
    return _DOCSTRING.sub(lambda match: f'{match[1]}""' + "\n" * match[0].count("\n"), text)


@cache
def packed(source: bytes) -> bytes:
    """Return a program as the bootstrap reads it; packed once for all hosts."""
    body = zlib.compress(source, _LEVEL)
    return b"%d\n%s" % (len(body), body)


def bootstrap(python: str, name: str, *args: str) -> tuple[str, ...]:
    """Return the command whose stdin is a packed program; NAME is what tracebacks call it."""
    return (python, "-c", _BOOTSTRAP.format(name=name), *args)


def stdin_for(
    python: str, source: bytes, payload: bytes, *, args: tuple[str, ...] = (), name: str = "gpulaunch"
) -> tuple[tuple[str, ...], bytes]:
    """Return (argv, stdin) that run `source` on a host with `payload` on its stdin.

    `name` is what tracebacks call the file; `args` become sys.argv[1:].
    """
    return bootstrap(python, name, *args), packed(source) + payload
