"""Lines whose end may be missing, as the text around them shows. Pure."""


class TruncatedLines:
    """Which lines of a text may be cut at their right.

    The last one is open where the text does not end its line. Others are where different lines are as long as
    the longest: a terminal or a column of a page cut all of them at its width.
    """

    def __init__(self, text: str) -> None:
        lines = text.split("\n")
        self._last = lines[-1]
        self._width = max(map(len, lines))
        self._is_cut = len({line for line in lines if len(line) == self._width}) > 1

    def may_lack(self, line: str) -> bool:
        """Whether the end of a line may be missing."""
        return bool(line) and (line == self._last or (self._is_cut and len(line) == self._width))
