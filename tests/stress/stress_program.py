"""Stresses a tracer with everything at once: threads, forks, exec, signals, loading and unloading
of libraries, exceptions. Each result is compared with the first result of the same call.

    stress_program.py LIBRARY ROUNDS [END]

LIBRARY is a shared library that is loaded and unloaded all the time. Each of the THREADS threads
makes ROUNDS rounds, or runs until the file END exists. At the end the program prints the number of
calls of each op of COUNTED, and the errors; exit status 0: there were none.
"""
import ctypes
import json
import os
import signal
import subprocess
import sys
import threading
import time

import torch

THREADS = 64
COUNTED = ("cos", "erf", "trunc")  # Ops that nothing else here calls.
LIBRARY, ROUNDS = sys.argv[1], int(sys.argv[2])
END = sys.argv[3] if len(sys.argv) > 3 else None

torch.set_num_threads(1)
counts = dict.fromkeys(COUNTED, 0)
wrong = []
lock = threading.Lock()
stopped = threading.Event()


def ended(number):
    return os.path.exists(END) if END else number >= ROUNDS


def compute(seed):
    """Runs one training step and the counted ops; returns a hash of the results."""
    generator = torch.Generator().manual_seed(seed)
    weight = torch.randn(6, 6, generator=generator, requires_grad=True)
    x = torch.randn(3, 6, generator=generator)
    loss = (x @ weight).relu().square().mean()
    loss.backward()
    parts = [loss, weight.grad] + [getattr(torch, name)(x) for name in COUNTED]
    return hash(tuple(value for part in parts for value in part.detach().flatten().tolist()))


def deep(levels, seed):
    return compute(seed) if levels == 0 else deep(levels - 1, seed)


def fail():
    """Throws a C++ exception through many frames; returns True if it arrives as expected."""
    try:
        torch.ones(2, 3) @ torch.ones(2, 3)
    except RuntimeError as error:
        return "cannot be multiplied" in str(error)
    return False


def work(thread):
    expected, calls, number = {}, 0, 0
    while not ended(number):
        seed = (thread * 7 + number) % 50
        bits = deep(number % 12, seed)
        calls += 1
        if expected.setdefault(seed, bits) != bits:
            with lock:
                wrong.append(f"thread {thread}, round {number}: other bits")
        if number % 5 == 0 and not fail():
            with lock:
                wrong.append(f"thread {thread}, round {number}: no exception")
        number += 1
    with lock:
        for name in COUNTED:
            counts[name] += calls


def adds_up():
    return torch.ones(8).sum().item() == 8


def fork(expected):
    while not stopped.is_set():
        child = os.fork()
        if child == 0:
            os._exit(0 if adds_up() else 1)
        if os.waitpid(child, 0)[1] != 0:
            wrong.append("a child that was forked failed")
        if subprocess.run(["true"], check=False).returncode != expected:
            wrong.append("a program that was started failed")
        time.sleep(0.05)


def load():
    close = ctypes.CDLL(None).dlclose
    close.argtypes = [ctypes.c_void_p]
    while not stopped.is_set():
        library = ctypes.CDLL(LIBRARY)
        if library.answer() != 42:
            wrong.append("a library gave a wrong answer")
        close(library._handle)
        time.sleep(0.005)


ticks = 0


def tick(*_):
    global ticks
    ticks += 1


def main():
    # The first call registers destructors (__cxa_atexit). In a forked child it would wait forever,
    # with or without optrace, if another thread was inside dlclose() when the process forked: both
    # take the same lock of the C library.
    if not adds_up():
        wrong.append("a sum is wrong")
    signal.signal(signal.SIGALRM, tick)
    signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
    # Printed before any work is done: from here on, optrace may attach.
    print("begun", flush=True)
    others = [threading.Thread(target=fork, args=(0,)), threading.Thread(target=load)]
    workers = [threading.Thread(target=work, args=(i,)) for i in range(THREADS)]
    for thread in others + workers:
        thread.start()
    for thread in workers:
        thread.join()
    stopped.set()
    for thread in others:
        thread.join()
    signal.setitimer(signal.ITIMER_REAL, 0)
    if ticks == 0:
        wrong.append("no signal came")
    print(json.dumps({"counts": counts, "wrong": wrong[:20], "ticks": ticks > 0}), flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
