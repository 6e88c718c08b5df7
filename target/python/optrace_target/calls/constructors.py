"""Compares the arguments of a module's constructor with those in the sample table."""
import inspect


def changed_sizes(kind, made_with, constructor):
    """Returns the numbers among the arguments of a constructor, by those that the sample table's
    call of it has in their place."""
    usual, asked = (_named_arguments(kind, *each) for each in (made_with, constructor))
    sizes = {}
    for name, size in usual.items():
        if type(size) is int and type(asked.get(name, size)) is int and asked.get(name) != size:
            sizes.setdefault(size, asked.get(name, size))
    return sizes


def _named_arguments(kind, positional, keywords):
    """Returns the arguments of a constructor by name; those without a name by position."""
    try:
        signature = inspect.signature(kind)
        arguments = signature.bind(*positional, **keywords).arguments
    except (TypeError, ValueError):
        return {}
    named: dict = {}
    for name, value in arguments.items():
        if signature.parameters[name].kind is inspect.Parameter.VAR_POSITIONAL:
            named.update(enumerate(value))
        elif signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD:
            named.update(value)
        else:
            named[name] = value
    return named
