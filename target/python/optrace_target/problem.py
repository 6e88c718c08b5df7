"""The only exception whose text is meant for the user."""

USAGE = 2  # The command line is wrong. The values are the command's exit statuses.
FAILED = 3  # The tracing itself failed.


class Problem(Exception):
    """The error and its remedy, both without a trailing newline."""

    def __init__(self, status, what, remedy):
        super().__init__(what)
        self.status = status
        self.what = what
        self.remedy = remedy


def first_line(error):
    """Returns `RuntimeError: size mismatch` for an exception, whose text may be long."""
    text = str(error).strip().split("\n", 1)[0]
    if len(text) > 160:
        text = text[:160].rstrip() + "..."
    return "%s: %s" % (type(error).__name__, text) if text else type(error).__name__
