"""The programs that test_attach*.py attach to. They print the result of each iteration.

    attached_program.py KIND END PERIOD

The program runs until the file END exists, then prints its own view of its state as JSON. Its
iterations repeat every PERIOD, so a few undisturbed ones give the expected results of all.
"""
import _thread
import concurrent.futures
import contextlib
import ctypes
import fcntl
import http.client
import http.server
import json
import os
import resource
import runpy
import signal
import sys
import threading
import time
import zlib

import torch

import system_call_filter

PERIOD = int(sys.argv[3])
THREADS = 4
READ_AND_EXECUTE = 1 | 4  # PROT_READ | PROT_EXEC


def bits_of(*tensors):
    bits = 0
    for tensor in tensors:
        bits = zlib.crc32(repr(tensor.tolist()).encode(), bits)
    return bits


def code_of(library):
    """Returns the address and the size of each part of its code."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        parts = [line.split() for line in maps]
    ranges = [[int(end, 16) for end in part[0].split("-")] for part in parts
              if part[-1].endswith("/" + library) and "x" in part[1]]
    assert ranges
    return [(start, end - start) for start, end in ranges]


class Training:
    """A model that is trained anew from the same start every PERIOD steps."""

    def step(self, place):
        torch.manual_seed(place)
        if place == 0:
            self._model = torch.nn.Sequential(
                torch.nn.Conv2d(1, 4, 3), torch.nn.ReLU(), torch.nn.Flatten(),
                torch.nn.Linear(4 * 36, 4))
            self._optimizer = torch.optim.SGD(self._model.parameters(), lr=0.1)
        self._optimizer.zero_grad()
        loss = self._model(torch.randn(2, 1, 8, 8)).square().mean()
        loss.backward()
        self._optimizer.step()
        if place == PERIOD - 1:
            torch.cumsum(torch.ones(3), 0)  # Called once per period.
        return bits_of(loss, *self._model.parameters())


class Resting(Training):
    """Leaves most of the processor's time to other processes."""

    def step(self, place):
        time.sleep(0.02)
        return super().step(place)


class Answering:
    """The model of Threads and Server: returns an answer to a number, in any thread."""

    def __init__(self):
        torch.manual_seed(0)
        self._model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(),
                                          torch.nn.Linear(16, 4)).eval()

    def __call__(self, number):
        with torch.no_grad():
            return bits_of(self._model(torch.full((3, 8), number / 7)).softmax(1))


class Threads:
    """Threads that never rest. As with gevent, _thread.start_new_thread is replaced: here it aborts
    the process, so that no thread but the program's own can be started. System calls of debuggers
    kill the process, as in sandboxes."""

    def __init__(self):
        _thread.start_new_thread = lambda *_: os.abort()
        system_call_filter.deny(
            [system_call_filter.PTRACE, system_call_filter.PROCESS_VM_READV,
             system_call_filter.PROCESS_VM_WRITEV, system_call_filter.PERF_EVENT_OPEN,
             system_call_filter.BPF, system_call_filter.USERFAULTFD, system_call_filter.MINCORE],
            system_call_filter.KILL)
        self._answer = Answering()
        self._pool = concurrent.futures.ThreadPoolExecutor(THREADS)

    def step(self, place):
        numbers = [place + 1000 * i for i in range(THREADS)]
        return sum(self._pool.map(self._answer, numbers)) % 2 ** 32


class Server:
    """A web server with a thread for each connection, and its clients. The process can't create a
    file larger than 1 MiB."""

    def __init__(self):
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
        answer = Answering()

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                text = b"%d" % answer(int(self.path[1:]))
                self.send_response(200)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *_):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self._port = server.server_address[1]
        self._pool = concurrent.futures.ThreadPoolExecutor(THREADS)

    def _ask(self, number):
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
        connection.request("GET", f"/{number}")
        text = connection.getresponse().read()
        connection.close()
        return int(text)

    def step(self, place):
        numbers = [place + 1000 * i for i in range(THREADS)]
        return sum(self._pool.map(self._ask, numbers)) % 2 ** 32


class Items(torch.utils.data.Dataset):
    def __len__(self):
        return 2 * PERIOD

    def __getitem__(self, index):
        return torch.cumsum(torch.full((8,), index / 3), 0).sin()


class Loader:
    """A DataLoader with worker processes, which compute as well."""

    def __init__(self):
        self._batches = torch.utils.data.DataLoader(Items(), batch_size=2, num_workers=2,
                                                    persistent_workers=True)

    def step(self, place):
        if place == 0:
            self._iterator = iter(self._batches)
        return bits_of(next(self._iterator).relu().mean(0))


class Forking:
    """A forked child computes every other iteration."""

    def __init__(self):
        self._answer = Answering()

    def step(self, place):
        if place % 2 == 0:
            return self._answer(place)
        from_child, to_parent = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(to_parent, b"%d" % self._answer(place))
            os._exit(0)
        os.close(to_parent)
        status = os.waitpid(child, 0)[1]
        assert status == 0, status
        with open(from_child, "rb") as said:
            return int(said.read())


class Cuda:
    """Convolutions on a CUDA device, possibly an emulated one: only their shapes are compared."""

    def __init__(self):
        self._model = torch.nn.Conv2d(3, 8, 3).cuda()

    def step(self, place):
        shape = self._model(torch.ones(2, 3, 8 + place, 8, device="cuda")).shape
        torch.cuda.synchronize()
        return zlib.crc32(repr(tuple(shape)).encode())


class Listening(Training):
    """Training that listens for optrace. From Python 3.10 on, a new thread aborts the process."""

    def __init__(self):
        if sys.version_info >= (3, 10):
            _thread.start_new_thread = lambda *_: os.abort()
        import optrace
        optrace.listen()


class Profiled:
    """Profile functions that are set and removed, and one that stays on another thread.

    It also calls objects that must not be asked for their names, writes to descriptors that it has
    closed, and makes torch's code read-only.
    """

    def __init__(self):
        agent_tests = os.path.join(os.path.dirname(os.path.dirname(__file__)), "agent")
        hostile = runpy.run_path(os.path.join(agent_tests, "hostile_names_program.py"))
        self._armed = hostile["armed"]
        self._calls = [call for call, _ in hostile["functions"]()]
        self._answer = Answering()
        self._seen = []
        self._round = threading.Barrier(2)
        threading.Thread(target=self._stay, daemon=True).start()
        code = code_of("libtorch_cpu.so")
        sys.stderr = os.fdopen(fcntl.fcntl(2, fcntl.F_DUPFD_CLOEXEC, 50), "w")  # For tracebacks.
        os.close(0)
        os.close(2)
        self._written = 0
        threading.Thread(target=self._be_careless, args=(code,), daemon=True).start()

    def _be_careless(self, code):
        protect = ctypes.CDLL(None).mprotect
        while True:
            for start, size in code:
                assert protect(ctypes.c_void_p(start), ctypes.c_size_t(size), READ_AND_EXECUTE) == 0
            for descriptor in (0, 2):
                with contextlib.suppress(OSError):
                    self._written += os.write(descriptor, b"?")
            time.sleep(0.0001)

    def _note(self, frame, event, argument):
        if frame.f_code.co_filename == __file__:
            self._seen.append((event, frame.f_code.co_name))

    def _stay(self):
        sys.setprofile(self._note)
        while True:
            self._round.wait()
            self._work()
            self._round.wait()

    def _work(self):
        return abs(len([1]) - 2)

    def step(self, place):
        self._armed.append(True)
        for call in self._calls:
            call()
        self._armed.clear()
        self._seen.clear()
        sys.setprofile(self._note)
        result = self._answer(place)
        sys.setprofile(None)
        self._work()
        self._round.wait()  # The other thread works alone.
        self._round.wait()
        return zlib.crc32(repr((result, self._seen, self._written)).encode())


class Interrupted:
    """An alarm whose handler raises goes off a thousand times a second. Each of these exceptions
    must reach the program, and its profile function must see nothing but the program."""

    class Alarm(Exception):
        pass

    def __init__(self):
        self._answer = Answering()
        self._armed = False
        self._raised = self._caught = self._foreign = 0
        signal.signal(signal.SIGALRM, self._on_alarm)
        signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)

    def _on_alarm(self, *_):
        if self._armed:
            self._armed = False
            self._raised += 1
            raise self.Alarm

    def _note(self, frame, event, argument):
        self._foreign += frame.f_code.co_filename != __file__

    def _work(self):
        for _ in range(10000):
            if not self._armed:
                break

    def _be_interrupted(self):
        for _ in range(10):
            try:
                self._armed = True
                self._work()
                self._armed = False
            except self.Alarm:
                self._caught += 1

    def _be_profiled(self):
        sys.setprofile(self._note)
        for _ in range(10):
            end = time.monotonic() + 0.001
            while time.monotonic() < end:
                pass
        sys.setprofile(None)

    def step(self, place):
        self._be_interrupted()
        self._be_profiled()
        seen = self._raised - self._caught, self._foreign
        return zlib.crc32(repr((self._answer(place), seen)).encode())


KINDS = {kind.__name__.lower(): kind
         for kind in (Training, Resting, Threads, Server, Loader, Forking, Cuda, Listening,
                      Profiled, Interrupted)}


def say(text):
    os.write(1, f"{text}\n".encode())


def main():
    torch.set_num_threads(1)
    end = sys.argv[2]
    program = KINDS[sys.argv[1]]()
    iteration = 0
    while not os.path.exists(end):
        say(f"{iteration} {program.step(iteration % PERIOD):08x}")
        iteration += 1
    signal.setitimer(signal.ITIMER_REAL, 0)  # Nothing handles an alarm after Python's end.
    own = [name for name in sys.modules if "optrace_attached" in name]
    say(json.dumps({"profile": repr(sys.getprofile()), "trace": repr(sys.gettrace()),
                    "threads": threading.active_count(), "modules": own}))


if __name__ == "__main__":
    main()
