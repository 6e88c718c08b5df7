"""The properties that all refusals of the command share."""


def assert_refused(result, status, *words, after_progress=False):
    """Asserts that the output is one message with the cause and the remedy, which has `words`.

    `after_progress` allows lines about the work before it.
    """
    assert result.returncode == status, result.stderr
    assert result.stdout == ""
    start = result.stderr.find("optrace: ")
    assert start == 0 or (after_progress and start > 0), result.stderr
    lines = result.stderr[start:].splitlines()
    assert len(lines) >= 2 and lines[1], "it does not say what to do: " + result.stderr
    assert "Traceback" not in result.stderr
    for word in words:
        assert str(word) in result.stderr
