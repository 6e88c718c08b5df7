"""Runs inside gdb: counts how often functions are entered.

$ACCOUNT_FUNCTIONS is a JSON file {"library": part of its path, "functions": {NAME: [address as
linked, ...]}, "answer": FILE}. The program signals itself when the library is loaded; the answer
is {NAME: calls} from then on.
"""
import json
import os

import gdb

SETTINGS = ("pagination off", "confirm off", "debuginfod enabled off", "auto-solib-add off",
            "breakpoint always-inserted on", "print thread-events off",
            "print inferior-events off", "detach-on-fork on", "follow-fork-mode parent")


def main():
    with open(os.environ["ACCOUNT_FUNCTIONS"], encoding="utf-8") as file:
        request = json.load(file)
    for setting in SETTINGS:
        gdb.execute("set " + setting)
    gdb.execute("handle SIGUSR1 stop nopass", to_string=True)
    gdb.execute("run", to_string=True)
    with open("/proc/%d/maps" % gdb.selected_inferior().pid, encoding="utf-8") as maps:
        base = min(int(line.split("-")[0], 16) for line in maps if request["library"] in line)
    entries = {name: [gdb.Breakpoint("*%d" % (base + address)) for address in addresses]
               for name, addresses in request["functions"].items()}
    for entry in sum(entries.values(), []):
        entry.ignore_count = 2**30
    gdb.execute("continue", to_string=True)
    assert gdb.parse_and_eval("$_exitcode") == 0, "the program did not end as usual"
    with open(request["answer"], "w", encoding="utf-8") as file:
        json.dump({name: sum(one.hit_count for one in own) for name, own in entries.items()}, file)


try:
    main()
except Exception as error:  # gdb would continue after a Python error and exit with 0.
    print("gdb_counts: %s: %s" % (type(error).__name__, error))
    gdb.execute("quit 1")
