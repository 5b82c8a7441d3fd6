"""Progress bars to which something else was glued: where they end. Pure."""

import re

# A progress bar glued to what was printed after it: " 25%|██▌   | 5/20 [00:00<00:00, 77.45it/s]RuntimeError: ...",
# or behind the blanks that wipe a longer one.
_BAR = re.compile(r"^.{0,120}?\d{1,3}%\|[^|]{0,200}\|[^\[\]]{0,60}\[[^\]]{0,120}\](?:\s{5,}|\s?)")
# The same without a total, "12it [00:03, 3.2it/s, loss=2.1]", and those of Keras and rich.
_OPEN_BAR = re.compile(
    r"^.{0,80}?(?:\d+it \[[^\]]{0,120}\]|\d+/\d+ \[[=>.]{5,60}\][^A-Z\[]{0,160}|[━╸╺╾]{5,80} [\d/.%• :a-z-]{0,60})\s?(?=[\[A-Z]|--- [A-Z])"
)


def match_bar(text: str) -> re.Match[str] | None:
    """Return the progress bar that a line starts with, None where it starts with none."""
    if "%|" in text and (bar := _BAR.match(text)) is not None:
        return bar
    if "it [" in text or "=]" in text or ">." in text or "━━" in text:
        return _OPEN_BAR.match(text)
    return None
