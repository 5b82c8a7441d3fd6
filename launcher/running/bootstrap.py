"""How what runs on a host gets there: as source over stdin, into an interpreter that knows nothing yet."""

import zlib
from functools import cache

from launcher.onhost_source import onhost_source

# Raw reads only: what follows on stdin belongs to the follower, and a buffer would swallow it. The working
# directory leaves sys.path: a stray json.py in somebody's home must not run.
BOOTSTRAP = (
    "import sys\n"
    "sys.path[:]=[p for p in sys.path if p]\n"
    "import zlib\n"
    "f=open(0,'rb',0,closefd=False)\n"
    "a,b=map(int,f.readline().split())\n"
    "def r(n):\n"
    " d=b''\n"
    " while len(d)<n:\n"
    "  c=f.read(n-len(d))\n"
    "  if not c: sys.exit(4)\n"
    "  d+=c\n"
    " return d\n"
    "g={'__name__':'gpulaunch_supervisor'}\n"
    "exec(compile(zlib.decompress(r(a)),'gpulaunch','exec'),g)\n"
    "sys.exit(g['main'](zlib.decompress(r(b))))\n"
)

_LEVEL = 6
_LEVEL_EACH = 1
"""For what differs from host to host: a third of the size at a fifth of the time."""


def packed(name: str, body: bytes) -> bytes:
    """Return what the command reads first: a file of launcher/onhost/ that it runs, and the request to it."""
    source, request = _packed_source(name), zlib.compress(body, _LEVEL_EACH)
    return b"%d %d\n" % (len(source), len(request)) + source + request


@cache
def _packed_source(name: str) -> bytes:
    return zlib.compress(onhost_source(name), _LEVEL)


def command(python: str, mode: str, run_id: str) -> tuple[str, ...]:
    """Return the argv that runs the supervisor's source from stdin; the words at the end are for `ps`."""
    return (python, "-S", "-s", "-E", "-c", BOOTSTRAP, "gpulaunch-supervisor", mode, run_id)
