"""Keyword arguments in the form of the command line."""

from __future__ import annotations

from typing import Any


def arguments(options: dict[str, Any]) -> list[str]:
    """The program's options for keyword arguments: underscores become dashes, True a flag; False
    and None leave the option out."""
    words = []
    for name, value in options.items():
        option = "--" + name.replace("_", "-")
        if value is True:
            words.append(option)
        elif value is not None and value is not False:
            words.append(f"{option}={value}")
    return words
