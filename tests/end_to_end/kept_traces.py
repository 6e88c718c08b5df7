"""The message that names a trace that `optrace run` or `attach` has kept in the cache."""
import re

PLACE = re.compile(r"^optrace: the traces? (is|of \d+ processes are) in (/.*/traces/\d{8}-\d{6}-\d+"
                   r"(?:/[\w.-]+\.trace)?)\r?\n", re.MULTILINE)


def without_place(stderr):
    """Returns the text without the message."""
    return PLACE.sub("", stderr, count=1)
