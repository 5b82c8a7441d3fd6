"""Why a text cannot be read as one launch, and what to paste in its place."""

from launcher.engines.command_line.words import Word
from launcher.errors import CommandRefused


def unseen_settings(words: tuple[Word, ...]) -> CommandRefused:
    """Return the error for a file of settings that is not beside the text."""
    return CommandRefused(
        f"{words[0].text} {words[1].text if len(words) > 1 else ''} sets what gpulaunch cannot see",
        "write its variables in front of the command (NAME=VALUE torchrun ...), or launch the whole"
        " script: gpulaunch run ... -- bash SCRIPT",
    )


def early_end(words: tuple[Word, ...]) -> CommandRefused:
    """Return the error for a text that ends in front of its launch."""
    shown = " ".join(word.text for word in words)
    return CommandRefused(
        f"the text ends with {shown} before it launches something",
        "give the variables that it asks for a value, or paste the launch alone",
    )


def cut_command(before: str) -> CommandRefused:
    """Return the error for a command that a comment or a line without its sign ends too early."""
    return CommandRefused(
        f"the command ends before {before}: the line above is a comment, or lacks its \\",
        "take the comment out, or write \\ at the end of the line above",
    )


def undecided_block(kind: str) -> CommandRefused:
    """Return the error for a launch inside of a loop, or of a condition that the text does not decide."""
    return CommandRefused(
        f"the line is a shell loop or condition ({kind})",
        "paste one launch of it, or launch the whole script: gpulaunch run ... -- bash SCRIPT",
    )
