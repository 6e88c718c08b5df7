"""Finds names that the user may have meant, for messages about an unknown one."""

_SUGGESTIONS = 4


def near_names(torch, spelling, entries, is_op, is_module):
    """Returns names like the spelling, the most similar first. `entries` is the table of samples;
    `is_op` and `is_module` tell what a name is."""
    import difflib

    def public(space):
        return [n for n in dir(space) if not n.startswith("_")
                and callable(getattr(space, n, None))]

    families = {
        "nn.": [n for n in dir(torch.nn) if is_module(n)],
        "F.": [n for n in public(torch.nn.functional) if n[0].islower()],
        "torch.": [n for n in public(torch) if is_op(n)],
        "Tensor.": public(torch.Tensor),
        "optim.": [n for n in public(torch.optim) if n[0].isupper()],
        "aten::": [n[len("aten::"):] for n in torch._C._dispatch_get_all_op_names()
                   if n.startswith("aten::") and not n.startswith("aten::_")],
    }
    for space in ("linalg", "fft", "special"):
        families["torch."] += [space + "." + n for n in public(getattr(torch, space))]
    short = spelling[len("torch."):] if spelling.startswith("torch.") else spelling
    short = short.replace("nn.functional.", "F.")
    shown = {}  # Maps lower-case names to suggestions.
    for prefix, names in families.items():
        if short.startswith(prefix):
            shown = {n.lower(): prefix + n for n in reversed(names)}
            short = short[len(prefix):]
            break
    else:
        if spelling.startswith("torch."):
            shown = {n.lower(): "torch." + n for n in families["torch."]}
        else:
            for prefix in ("aten::", "optim.", "Tensor.", "F.", "torch.", "nn."):
                for n in families[prefix]:
                    shown[n.lower()] = prefix + n
            for n in families["torch."] + families["F."]:
                shown[n.lower()] = n
            for key, entry in entries.items():
                if "module" in entry:
                    shown[key] = key
            short = short.rpartition("::")[2]
    found = difflib.get_close_matches(short.lower(), shown, _SUGGESTIONS, 0.6)
    return [shown[match] for match in found]


def alternatives(names):
    """Returns `a, b or c`."""
    return " or ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
