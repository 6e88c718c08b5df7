"""What test_attach*.py attach to: programs that say what came out of each of their iterations.

    attached_program.py KIND END PERIOD

It goes on until the file END exists, then says what it sees of itself, as JSON. Its iterations
repeat every PERIOD, so that what a few of them give when nobody looks tells what all must give.
"""
import _thread
import concurrent.futures
import http.client
import http.server
import json
import os
import runpy
import sys
import threading
import time
import zlib

import torch

PERIOD = int(sys.argv[3])
THREADS = 4


def bits_of(*tensors):
    bits = 0
    for tensor in tensors:
        bits = zlib.crc32(repr(tensor.tolist()).encode(), bits)
    return bits


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
            torch.cumsum(torch.ones(3), 0)  # Once in a while.
        return bits_of(loss, *self._model.parameters())


class Resting(Training):
    """Leaves most of the processor to others."""

    def step(self, place):
        time.sleep(0.004)
        return super().step(place)


class Answering:
    """What Threads and Server ask for: a model's answer to a number, from any thread."""

    def __init__(self):
        torch.manual_seed(0)
        self._model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(),
                                          torch.nn.Linear(16, 4)).eval()

    def __call__(self, number):
        with torch.no_grad():
            return bits_of(self._model(torch.full((3, 8), number / 7)).softmax(1))


class Threads:
    """Threads that never rest share the process. As with gevent, new ones that are not the
    program's own are not what they seem: here, its end."""

    def __init__(self):
        if sys.version_info >= (3, 10):
            _thread.start_new_thread = lambda *_: os.abort()
        self._answer = Answering()
        self._pool = concurrent.futures.ThreadPoolExecutor(THREADS)

    def step(self, place):
        numbers = [place + 1000 * i for i in range(THREADS)]
        return sum(self._pool.map(self._answer, numbers)) % 2 ** 32


class Server:
    """A web server with a thread for each connection, and those that ask it."""

    def __init__(self):
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
    """Every other iteration is made by a child."""

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
    """Convolutions on a CUDA device, which may be an emulated one: only their shapes count."""

    def __init__(self):
        self._model = torch.nn.Conv2d(3, 8, 3).cuda()

    def step(self, place):
        shape = self._model(torch.ones(2, 3, 8 + place, 8, device="cuda")).shape
        torch.cuda.synchronize()
        return zlib.crc32(repr(tuple(shape)).encode())


class Listening(Training):
    """Training that listens for optrace."""

    def __init__(self):
        import optrace
        optrace.listen()


class Profiled:
    """Profile functions that come and go, and one that stays on another thread.

    It also calls what must not be asked for its name.
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
        return zlib.crc32(repr((result, self._seen)).encode())


KINDS = {kind.__name__.lower(): kind
         for kind in (Training, Resting, Threads, Server, Loader, Forking, Cuda, Listening,
                      Profiled)}


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
    own = [name for name in sys.modules if "optrace_attached" in name]
    say(json.dumps({"profile": repr(sys.getprofile()), "trace": repr(sys.gettrace()),
                    "threads": threading.active_count(), "modules": own}))


if __name__ == "__main__":
    main()
