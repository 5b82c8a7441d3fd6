"""The screenshots of the docs, from the page of a made-up fleet: `python -m tests.browser.capture`.

Writes docs/images/preflight-page.png. Hosts and findings come from recordings in tests/preflight/recordings.
"""

import sys
import tempfile
from pathlib import Path

from launcher.report.preflight_page.page import render_preflight_page
from launcher.version import read_version
from tests.browser.chromium import chromium_page, find_chromium
from tests.launcher.preflight_fleets import fleet

_IMAGES = Path(__file__).parents[2] / "docs/images"
_WIDTH, _HEIGHT = 1000, 860


def main() -> int:
    """Take them; return 1 where there is no Chromium."""
    program = find_chromium()
    if program is None:
        sys.stderr.write("no Chromium here: sudo apt install chromium\n")
        return 1
    _IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, chromium_page(program) as tab:
        path = Path(folder) / "page.html"
        path.write_text(
            render_preflight_page(fleet(), made_at=1763800000.0, version=read_version()), encoding="utf-8"
        )
        tab.show(_WIDTH)
        tab.open(path)
        (_IMAGES / "preflight-page.png").write_bytes(tab.screenshot(width=_WIDTH, height=_HEIGHT))
    return 0


if __name__ == "__main__":
    sys.exit(main())
