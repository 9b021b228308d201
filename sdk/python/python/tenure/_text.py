"""Text of exceptions as the broker takes it."""

from __future__ import annotations


def text_of(error: object) -> str:
    """What ``str`` says of an exception, whatever its class does."""
    try:
        text = str(error)
    except BaseException as second:
        return f"its text cannot be read: str() raises {type(second).__name__}"
    return encodable(text)


def encodable(text: str) -> str:
    """The text as UTF-8 can hold it: a lone surrogate, as in a file name that is not UTF-8, becomes an escape."""
    return text.encode("utf-8", "backslashreplace").decode()
