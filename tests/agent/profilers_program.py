"""Run by test_agent_python.py, traced and untraced: prints the events of its profile functions.

profilers_program.py [AGENT RECORDING]
"""
import cProfile
import ctypes
import json
import sys
import threading

from recording_file import record_into

seen = []


def note(frame, event, argument):
    what = getattr(argument, "__name__", "") if event.startswith("c_") else ""
    seen.append([event, frame.f_code.co_name, what])


def note_differently(frame, event, argument):
    seen.append(["differently", event, frame.f_code.co_name])


def take_seen():
    taken, seen[:] = list(seen), []
    return taken


def during():
    return len([1, 2])


def after():
    return abs(-1)


def plain():
    sys.setprofile(note)
    assert sys.getprofile() is note
    during()
    try:
        int("no number")
    except ValueError:
        pass
    sorted([2, 1], key=lambda item: during() - item)
    sys.setprofile(None)
    assert sys.getprofile() is None
    after()


def within_builtins():
    """The return of a call that began without a profile function is not reported."""
    def begin(item):
        sys.setprofile(note)
        return during() - item

    def end(item):
        sys.setprofile(None)
        return after() - item
    sorted([3], key=begin)
    max([3], key=end)
    min([3], key=begin)
    sys.setprofile(None)


def one_after_the_other():
    sys.setprofile(note)
    during()
    sys.setprofile(note_differently)
    during()
    sys.setprofile(note)
    sys.setprofile(None)


def that_ends_itself():
    def once(frame, event, argument):
        seen.append(event)
        sys.setprofile(None)
    sys.setprofile(once)
    during()
    after()


def that_fails():
    def fails(frame, event, argument):
        seen.append(event)
        raise KeyError(event)
    for work in (lambda: during(), lambda: abs(1)):
        try:
            sys.setprofile(fails)
            work()
        except KeyError as error:
            seen.append(repr(error))
        seen.append(sys.getprofile() is None)
    after()


def in_threads():
    def work():
        assert sys.getprofile() is note
        during()
        sys.setprofile(None)
        after()
    before, stop = threading.Event(), threading.Event()

    def waits():
        before.set()
        stop.wait()
        during()
    waiting = threading.Thread(target=waits)
    waiting.start()
    before.wait()
    threading.setprofile(note)
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    threading.setprofile(None)
    stop.set()
    waiting.join()


def in_all_threads():
    if not hasattr(threading, "setprofile_all_threads"):
        return
    threading.setprofile_all_threads(note)
    during()
    threading.setprofile_all_threads(None)
    after()


def beside_a_trace_function():
    def trace(frame, event, argument):
        seen.append(["trace", event, frame.f_code.co_name])
        return trace
    sys.settrace(trace)
    sys.setprofile(note)
    during()
    sys.setprofile(None)
    after()
    sys.settrace(None)


def with_cprofile():
    for _ in range(2):
        profile = cProfile.Profile()
        profile.enable()
        during()
        after()
        profile.disable()
        after()
        for entry in profile.getstats():
            code = entry.code
            calls = [[getattr(callee.code, "co_name", callee.code), callee.callcount]
                     for callee in entry.calls or ()]
            seen.append([getattr(code, "co_name", code), entry.callcount, sorted(calls, key=str)])


def heard_of():
    """Counts the audit events of sys.setprofile."""
    hook = []
    sys.addaudithook(lambda event, arguments: hook.append(event) if event == "sys.setprofile"
                     and listening else None)
    listening = [1]
    sys.setprofile(note)
    sys.setprofile(None)
    listening = []
    seen.append(len(hook))


SCENES = [plain, within_builtins, one_after_the_other, that_ends_itself, that_fails, in_threads,
          in_all_threads, beside_a_trace_function, with_cprofile, heard_of]


def run():
    told = {}
    for scene in SCENES:
        scene()
        sys.setprofile(None)
        told[scene.__name__] = sorted(take_seen(), key=str) if scene is with_cprofile \
            else take_seen()
    return told


def taken_away():
    """Removes the profile function by a call that can't be intercepted; a new thread reveals it."""
    here = ctypes.pythonapi.PyThreadState_Get
    here.restype = ctypes.c_void_p
    ctypes.pythonapi._PyEval_SetProfile(ctypes.c_void_p(here()), None, None)
    thread = threading.Thread(target=after)
    thread.start()
    thread.join()
    during()


def main():
    if len(sys.argv) == 1:
        print(json.dumps(run()))
        return
    agent = ctypes.PyDLL(sys.argv[1])
    python, start, stop = [getattr(agent, "optrace_agent_" + name)
                           for name in ("python", "start", "stop")]
    record_into(agent, sys.argv[2])
    assert python(1) == 0
    assert start() == 0
    told = run()
    taken_away()
    assert stop() == 0
    sys.setprofile(note)
    assert python(0) == 0
    assert sys.getprofile() is note
    sys.setprofile(None)
    print(json.dumps(told))


main()
