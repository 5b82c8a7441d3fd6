"""How a file of launcher/onhost/ travels: compressed over stdin to a one-line bootstrap."""

import pkgutil
import zlib
from functools import cache

# Reads "<length>\n<zlib bytes>" from stdin and runs it as a script; what follows on stdin is the script's.
# The working directory leaves sys.path: a stray json.py in somebody's home must not run.
_BOOTSTRAP = (
    "import sys,zlib;sys.path[:]=[p for p in sys.path if p];r=sys.stdin.buffer;"
    "exec(compile(zlib.decompress(r.read(int(r.readline()))),{name!r},'exec'),{{'__name__':'__main__'}})"
)


@cache
def onhost_source(name: str) -> bytes:
    """Return the source of launcher/onhost/NAME.py."""
    source = pkgutil.get_data("launcher.onhost", f"{name}.py")
    if source is None:
        raise FileNotFoundError(f"launcher/onhost/{name}.py")
    return source


@cache
def _packed(source: bytes) -> bytes:
    return zlib.compress(source, 6)


def stdin_for(
    python: str, source: bytes, payload: bytes, *, args: tuple[str, ...] = (), name: str = "gpulaunch"
) -> tuple[tuple[str, ...], bytes]:
    """Return (argv, stdin) that run `source` on a host with `payload` on its stdin.

    `name` is what tracebacks call the file; `args` become sys.argv[1:].
    """
    packed = _packed(source)
    argv = (python, "-c", _BOOTSTRAP.format(name=name), *args)
    return argv, str(len(packed)).encode() + b"\n" + packed + payload
