"""`optrace tensors` and `--tensors`: where tensors are, which share memory, what copies them."""
import json
import textwrap

import pytest

import attach_target
from report_frames import frames

USAGE = 2
FAILED = 3
INTERRUPTED = 130
QUESTION = "import torch; x = torch.rand(3, 4); y = x.t().contiguous().view(-1)"

PROGRAM = """\
    import torch

    def scope(argument):
        inner = argument.t()
        return inner + 1

    base = torch.rand(4, 6)
    same = base
    view = base[1:3]
    detached = base.detach()
    copied = base.t().contiguous().view(-1)
    wide = base.to(torch.float64)
    base.add_(1)
    target = torch.empty(0)
    target.set_(base)
    grown = torch.zeros(2)
    grown.resize_(1000)
    result = scope(base)
    first = torch.zeros(50000)
    place = first.data_ptr()
    del first
    second = torch.zeros(50000)
    print("reused", second.data_ptr() == place)
    weight = torch.nn.Parameter(torch.rand(6))
    loss = (base * weight).sum()
    loss.backward()
    gradient = weight.grad
    big = torch.zeros(1000000)
    del big
    last = torch.zeros(1)
    print("end", flush=True)
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    path = tmp_path_factory.mktemp("program") / "program.py"
    path.write_text(textwrap.dedent(PROGRAM))
    return path


def line_of(text):
    return 1 + [line.strip() for line in PROGRAM.splitlines()].index(text)


class Answer:
    """The answer of `optrace tensors --format json`."""

    def __init__(self, answer):
        self.answer = answer
        self.storages = {storage["number"]: storage for storage in answer["storages"]}

    def variable(self, name, function=None):
        found = [one for one in self.answer["variables"]
                 if one["name"] == name and one["function"] == function]
        assert len(found) == 1, (name, [one["name"] for one in self.answer["variables"]])
        return found[0]

    def storage(self, name):
        return self.variable(name)["tensor"]["storage"]

    def shared(self, name):
        return {one["name"]: one["same_tensor"] for one in self.variable(name)["shared_with"]}


def follow(optrace, python, program, validate, *options):
    result = optrace("tensors", "--python", python, "--json", *options, program)
    assert result.returncode == 0, result.stderr
    assert "end" in result.stderr
    answer = json.loads(result.stdout)
    validate(answer, "tensors")
    assert answer["complete"]
    return Answer(answer)


@pytest.fixture(scope="module", params=["reference", "newest"])
def answer(request, optrace, program, validate):
    name = "python" if request.param == "reference" else "newest_python"
    return follow(optrace, request.getfixturevalue(name), program, validate)


def test_views_and_references(answer):
    assert answer.shared("base") == {"same": True, "view": False, "detached": False,
                                     "target": False}
    assert answer.variable("view")["tensor"]["offset"] == 6
    assert answer.variable("base")["tensor"]["version"] == 1  # After add_().
    writing = [step for step in answer.variable("view")["steps"] if step["op"].startswith(
        "aten::add_")]
    assert [step["line"] for step in writing] == [line_of("base.add_(1)")]


def test_copies(answer):
    [copy] = answer.variable("copied")["copied_from"]
    assert copy["from"] == answer.storage("base") and copy["to"] == answer.storage("copied")
    assert copy["reason"] == "layout: strides 1,6 to 4,1"
    assert copy["by"]["op"] == "aten::contiguous"
    assert copy["by"]["line"] == line_of("copied = base.t().contiguous().view(-1)")
    assert answer.shared("copied") == {}
    steps = [step["op"] for step in answer.variable("copied")["steps"]]
    assert steps[-2:] == ["aten::contiguous", "aten::view"]
    [copy] = answer.variable("wide")["copied_from"]
    assert copy["reason"] == "dtype: float32 to float64"
    assert copy["from"] == answer.storage("base")
    assert {one["to"] for one in answer.variable("base")["copied_to"]} >= {
        answer.storage("copied"), answer.storage("wide")}


def test_set_and_resize(answer):
    assert answer.storage("target") == answer.storage("base")
    grown = answer.storages[answer.storage("grown")]
    assert grown["bytes"] == grown["largest_bytes"] == 4000
    assert grown["born"]["line"] == line_of("grown = torch.zeros(2)")


def test_variables_of_functions(answer):
    argument = answer.variable("argument", "scope")
    assert argument["tensor"]["storage"] == answer.storage("base")
    inner = answer.variable("inner", "scope")
    assert inner["tensor"]["storage"] == answer.storage("base")
    assert inner["tensor"]["strides"] == [1, 6] and not inner["at_end"]
    # Both end when the function returns.
    for one, other in ((argument, "scope.inner"), (inner, "scope.argument")):
        assert other in [shared["name"] for shared in one["shared_with"]]
    result = answer.storages[answer.storage("result")]
    assert result["born"]["line"] == line_of("return inner + 1")


def test_a_reused_address_is_another_storage(answer):
    """`second` is, mostly, at the address at which `first` was."""
    second = answer.storages[answer.storage("second")]
    [freed] = [storage for storage in answer.storages.values()
               if storage["bytes"] == 200000 and storage["number"] < second["number"]]
    assert not freed["at_end"]
    assert freed["freed_before"]["line"] == line_of("second = torch.zeros(50000)")
    assert second["at_end"] and second["names"] == ["second"]


def test_gradients(answer):
    gradient = answer.storages[answer.storage("gradient")]
    assert not gradient["existed"] and gradient["at_end"]
    assert answer.variable("weight")["tensor"]["requires_grad"]
    assert answer.storage("weight") != answer.storage("gradient")
    # The gradient of `weight` is computed from `base`.
    [saved] = answer.storages[answer.storage("base")]["saved"]
    assert saved["op"] == "aten::mul.Tensor" and saved["node"] == "MulBackward0"
    assert saved["by"]["line"] == line_of("loss = (base * weight).sum()")
    assert answer.storages[answer.storage("weight")]["saved"] == []


def test_the_peak(answer):
    [peak] = answer.answer["peaks"]
    assert peak["device"] == "cpu" and peak["bytes"] > 4000000
    assert peak["reached"]["line"] == line_of("big = torch.zeros(1000000)")
    big = answer.storages[peak["storages"][0]]
    assert big["bytes"] == 4000000
    assert big["freed_before"]["line"] == line_of("last = torch.zeros(1)")


def test_is_it_a_copy(optrace, python):
    result = optrace("tensors", "--python", python, "-c", QUESTION, "--name", "y")
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[0] == "y: 12 float32 cpu, storage #2 +0"
    facts = {line[2:11].strip(): line[12:] for line in lines if line.startswith("  ")}
    assert facts["shared by"] == "no other variable"
    assert facts["a copy"].startswith("yes, of storage #1: by aten::contiguous at <string>:1 (")
    assert facts["a copy"].endswith("layout: strides 1,4 to 3,1")
    assert len(lines) < 20


def test_an_unknown_name(optrace, python):
    result = optrace("tensors", "--python", python, "--name", "z", "-c", QUESTION)
    assert result.returncode == USAGE
    assert "no variable 'z' of the program refers to a tensor" in result.stderr
    assert "Those that do: x, y." in result.stderr


NAMES = """
import collections, torch

class Odd:
    def __init__(self):
        self.hidden = torch.zeros(3)
    @property
    def trap(self):
        print("property")
    def __getattr__(self, name):
        print("getattr", name)
        raise AttributeError(name)
    def __getattribute__(self, name):
        print("getattribute", name)
        return object.__getattribute__(self, name)
    def __hash__(self):
        print("hash")
        return 1
    def __eq__(self, other):
        print("eq")
        return self is other
    def __len__(self):
        print("len")
        return 1
    def __iter__(self):
        print("iter")
        return iter(())

class Slotted(Odd):
    __slots__ = ("first", "__second", "unset")
    def __init__(self):
        Odd.__init__(self)
        self.first, self.__second = torch.zeros(12), [torch.zeros(13)]

class MoreSlots:
    __slots__ = ("own",)

class EvenMoreSlots(MoreSlots):
    __slots__ = ("more", "__weakref__")
    @property
    def own(self):
        print("own")

class Derived(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        if function is torch.Tensor._cdata.__get__:
            print("torch_function")
        return super().__torch_function__(function, types, args, kwargs or {})

class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = torch.nn.Linear(2, 3)
        self.register_buffer("scale", torch.ones(1))
        self.inner = torch.nn.Sequential(torch.nn.Linear(3, 1))
    def forward(self, rows):
        self.last = self.fc1(rows) * self.scale
        return self.inner(self.last)

def outer():
    captured = torch.ones(5)
    def inner(argument):
        def innermost():
            return argument + captured
        return innermost()
    return inner(torch.ones(5))

model = Block()
batch = [torch.ones(2), (torch.ones(3), {"deep": torch.ones(4)})]
state = {"x": torch.ones(6), 7: torch.ones(7), ("no", "name"): torch.ones(8)}
counted = collections.OrderedDict(first=batch[0])
odd = Odd()
slotted = Slotted()
more = EvenMoreSlots()
MoreSlots.own.__set__(more, torch.ones(14))
more.more = torch.ones(15)
keys = {odd: torch.ones(9)}
cycle = []
cycle.append(cycle)
cycle.append(torch.ones(10))
derived = torch.ones(11).as_subclass(Derived)
with torch.device("cpu"):
    model(torch.ones(4, 2))
outer()
product = model(torch.ones(4, 2)).sum()
product.backward()
print("end", flush=True)
"""


def test_names_of_what_variables_contain(optrace, python, newest_python, run_program, validate,
                                         tmp_path):
    """Nothing of the program is called for them: its output is that of a run without optrace."""
    program = tmp_path / "names.py"
    program.write_text(NAMES)
    for one in (python, newest_python):
        usual = run_program([one, str(program)])
        result = optrace("tensors", "--python", one, "--json", program)
        assert result.returncode == 0 and result.stderr == usual.stdout, result.stderr
        answer = json.loads(result.stdout)
        validate(answer, "tensors")
        names = {(variable["function"], variable["name"]): variable
                 for variable in answer["variables"]}
        shapes = {name: variable["tensor"]["shape"]
                  for (function, name), variable in names.items() if function is None}
        assert shapes == {
            "model.fc1.weight": [3, 2], "model.fc1.bias": [3], "model.scale": [1],
            "model.inner.0.weight": [1, 3], "model.inner.0.bias": [1], "model.last": [4, 3],
            "batch[0]": [2], "batch[1][0]": [3], "batch[1][1]['deep']": [4],
            "state['x']": [6], "state[7]": [7], "counted['first']": [2], "odd.hidden": [3],
            "slotted.hidden": [3], "slotted.first": [12], "slotted._Slotted__second[0]": [13],
            "more.own": [14], "more.more": [15],
            "product": [], "model.fc1.weight.grad": [3, 2], "model.fc1.bias.grad": [3],
            "model.inner.0.weight.grad": [1, 3], "model.inner.0.bias.grad": [1],
            "cycle[1]": [10], "derived": [11]}
        first = names[None, "counted['first']"]
        assert {"name": "batch[0]", "same_tensor": True, "offset": 0} in first["shared_with"]
        assert first["identity"] == names[None, "batch[0]"]["identity"]
        for function in ("outer", "inner", "innermost"):
            assert names[function, "captured" if function == "outer" else "argument"]
        assert names["innermost", "captured"]["tensor"]["shape"] == [5]
        assert names["forward", "self.fc1.weight"]["identity"] == names[
            None, "model.fc1.weight"]["identity"]
        assert not any(name.startswith("keys") for _, name in names)
    result = optrace("tensors", "--python", python, "--name", "fc1.weight", program)
    assert "model.fc1.weight: 3×2 float32 cpu" in result.stdout
    assert "forward.self.fc1.weight" in result.stdout


SWAPPED = """
import torch
from torch.utils import swap_tensors
a, b, model = torch.ones(3), torch.zeros(2), torch.nn.Linear(4, 1)
a + 1
swap_tensors(a, b)
torch.__future__.set_swap_module_params_on_conversion(True)
model(torch.ones(1, 4)).sum().backward()
model.double()
torch.ones(5) + 1
print(a.shape, b.shape, model.weight.grad.dtype)
"""


REUSED = """
addresses = set()
for i in range(1100):
    globals()[f"tensor{i}"] = torch.empty(0)
    addresses.add(globals()[f"tensor{i}"]._cdata)
    torch.ones(1)
    del globals()[f"tensor{i}"]
kept = torch.empty(0)
again = kept
print(len(addresses))
"""


@pytest.fixture(scope="module", params=["python", "newest_python"])
def swapped_and_reused(request, optrace, tmp_path_factory):
    """What the program of both texts prints, and its variables by name."""
    program = tmp_path_factory.mktemp("swapped") / "program.py"
    program.write_text(SWAPPED + REUSED)
    result = optrace("tensors", "--python", request.getfixturevalue(request.param), "--json",
                     program)
    assert result.returncode == 0, result.stderr
    return result.stderr.splitlines(), {variable["name"]: variable for variable in
                                        json.loads(result.stdout)["variables"]}


def test_tensors_can_be_swapped(swapped_and_reused):
    """PyTorch refuses to swap tensors that have weak references."""
    said, variables = swapped_and_reused
    assert said[0] == "torch.Size([2]) torch.Size([3]) torch.float64"
    tensors = {name: variable["tensor"] for name, variable in variables.items()}
    assert (tensors["a"]["shape"], tensors["b"]["shape"]) == ([2], [3])
    assert tensors["model.weight"]["dtype"] == "float64"


def test_a_reused_address_is_another_tensor(swapped_and_reused):
    """Each tensor of a loop has an identity of its own, though some have an address used before."""
    said, variables = swapped_and_reused
    assert int(said[1]) < 1100
    own = {name: variable for name, variable in variables.items()
           if name.startswith("tensor") or name in ("again", "kept")}
    assert set(own) == {f"tensor{i}" for i in range(1100)} | {"again", "kept"}
    assert set(variables) - set(own) == {"a", "b", *(
        f"model.{name}" for name in ("weight", "bias", "weight.grad", "bias.grad"))}
    assert own["again"]["identity"] == own["kept"]["identity"]
    assert len({variable["identity"] for variable in own.values()}) == 1101
    assert len({variable["tensor"]["storage"] for variable in own.values()}) == 1101


def test_ctrl_c_ends_the_program_and_gives_the_answer(start_optrace, press_ctrl_c, python,
                                                      tmp_path):
    begun = tmp_path / "begun"
    tracing = start_optrace(
        "tensors", "--python", python, "-c", "import pathlib, time, torch; x = torch.ones(3); "
        f"y = x.clone(); pathlib.Path({str(begun)!r}).touch(); time.sleep(600)")
    text, errors = press_ctrl_c(tracing, begun)
    assert tracing.returncode == INTERRUPTED, errors
    assert "the program failed (killed by SIGINT" in errors
    assert "The answer covers what it did until then." in errors
    assert "y  3 float32 cpu, storage #2 +0" in text


@pytest.mark.parametrize("code, words", [
    ("1 / 0", "the program failed (exit status 1) before it imported torch"),
    ("import torch; 1 / 0", "the program failed (exit status 1) before it called an op of torch"),
    ("import torch", "the program called no op of torch, so it has no tensors"),
    ("pass", "the program never imported torch, so it has no tensors"),
])
def test_a_program_without_tensors(optrace, python, code, words):
    result = optrace("tensors", "--python", python, "-c", code)
    assert result.returncode == FAILED
    assert words in result.stderr and not result.stdout


def test_the_program_is_not_changed(optrace, python, run_program, tmp_path):
    """Lifetimes, reference counts and storages are those of a run without optrace."""
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent("""
        import gc, sys, weakref, torch

        def work():
            x = torch.rand(3, requires_grad=True)
            y = (x * 2).sum()
            reference = weakref.ref(y)
            print(sys.getrefcount(x), sys.getrefcount(y), y.untyped_storage()._use_count()
                  if hasattr(y.untyped_storage(), "_use_count") else "")
            y.backward()
            del y
            print(reference() is None, sorted(locals()), x.grad.tolist())
            storage = torch.zeros(4).untyped_storage()
            address = storage._cdata
            weak = storage._weak_ref()
            print(torch.UntypedStorage._expired(weak))
            del storage
            print(torch.UntypedStorage._expired(weak))
            torch.UntypedStorage._free_weak_ref(weak)

        work()
        with torch.device("cpu"):
            print(torch.zeros(2).tolist(), gc.isenabled())
        """))
    usual = run_program([python, str(program)])
    assert usual.returncode == 0, usual.stderr
    traced = optrace("run", "--python", python, "--tensors", "-o", tmp_path / "report", program)
    assert traced.returncode == 0, traced.stderr
    assert traced.stdout == usual.stdout


def test_copies_between_devices(optrace, python, program, validate, tmp_path):
    script = tmp_path / "devices.py"
    script.write_text("import torch\nhost = torch.rand(8)\ndevice = host.cuda()\n"
                      "back = device.cpu()\nprint('end')\n")
    answer = follow(optrace, python, script, validate, "--dry-run")
    [copy] = answer.variable("device")["copied_from"]
    assert copy["reason"] == "device: cpu to cuda:0"
    assert copy["from"] == answer.storage("host")
    [copy] = answer.variable("back")["copied_from"]
    assert copy["from"] == answer.storage("device")
    steps = answer.variable("back")["steps"]
    assert [step["line"] for step in steps] == [2, 3, 4]
    assert {peak["device"] for peak in answer.answer["peaks"]} == {"cpu", "cuda:0"}


def test_an_op(optrace, python, validate, tmp_path):
    trace = tmp_path / "op.trace"
    text = optrace("Tensor.contiguous", "--python", python, "--tensors", "--trace", trace,
                   "--input", "torch.rand(3, 4).t()")
    assert text.returncode == 0, text.stderr
    assert "↳ self: 4×3 float32 cpu, storage #1 +0" in text.stdout
    assert "↳ copies storage #1 to #2, layout: strides 1,4 to 3,1" in text.stdout
    assert "new (48 bytes)" in text.stdout
    again = optrace("report", trace, "--format", "json")
    report = json.loads(again.stdout)
    validate(report, "report")
    copies = [frame["detail"]["tensors"]["copies"] for frame in frames(report)
              if frame["detail"] and "copies" in frame["detail"].get("tensors", {})]
    assert [[one["reason"] for one in found] for found in copies] == [
        ["layout: strides 1,4 to 3,1"]]
    plain = optrace("report", trace)
    assert "storage #1" not in plain.stdout


RANKS = """
    import os, torch
    import torch.distributed as dist
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    mine = torch.full((rank + 1,), float(rank))
    total = torch.ones(4) * rank
    dist.all_reduce(total)
    dist.destroy_process_group()
"""


def test_ranks_are_shown_apart(optrace, python, validate, tmp_path):
    job = tmp_path / "job.py"
    job.write_text(textwrap.dedent(RANKS))
    program = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", job]
    result = optrace("tensors", "--children", "--python", python, "--json", *program)
    assert result.returncode == 0, result.stderr
    answers = [json.loads(line) for line in result.stdout.splitlines()]
    for answer in answers:
        validate(answer, "tensors")
    assert [answer["rank"] for answer in answers] == [0, 1]
    assert len({answer["process"] for answer in answers}) == 2
    shapes = [{variable["name"]: variable["tensor"]["shape"] for variable in answer["variables"]
               if variable["function"] is None} for answer in answers]
    assert shapes == [{"mine": [1], "total": [4]}, {"mine": [2], "total": [4]}]


def test_other_processes_are_named(optrace, python, tmp_path):
    job = tmp_path / "job.py"
    job.write_text("import torch.multiprocessing as mp, torch\n"
                   "def work(rank):\n    x = torch.ones(rank + 1)\n    y = x + 1\n"
                   "mp.start_processes(work, nprocs=2, start_method='fork')\n")
    alone = optrace("tensors", "--python", python, job)
    assert alone.returncode == FAILED
    assert "It started other processes: --children shows them, too." in alone.stderr
    together = optrace("tensors", "--python", python, "--children", "--name", "work.x", job)
    assert together.returncode == 0, together.stderr
    assert "x: 1 float32 cpu" in together.stdout and "x: 2 float32 cpu" in together.stdout
    assert together.stdout.count("process ") == 2


def test_a_running_process(optrace, python, tmp_path):
    with attach_target.Target(python, tmp_path / "target") as target:
        target.wait_for_lines(2 * attach_target.PERIOD)
        undisturbed = target.results()[:attach_target.PERIOD]
        path = tmp_path / "report.json"
        result = optrace("attach", target.pid, "--tensors", "--count", 100, "--format", "json",
                         "-o", path)
        assert result.returncode == 0, result.stderr
        attach_target.end(target, undisturbed)
    report = json.loads(path.read_text())
    squares = [frame["detail"]["tensors"] for frame in frames(report)
               if frame["op"] == "aten::square" and "tensors" in (frame["detail"] or {})]
    assert squares
    for square in squares:
        assert square["arguments"][0]["storage"] != square["results"][0]["storage"]
        assert square["results"][0]["relation"] == "fresh"


def test_a_trace_without_tensors(optrace, python, tmp_path):
    trace = tmp_path / "plain.trace"
    made = optrace("run", "--python", python, "--trace", trace, "-c", "import torch; torch.ones(1)")
    assert made.returncode == 0, made.stderr
    result = optrace("report", trace, "--tensors")
    assert result.returncode == USAGE
    assert "the trace does not have where its tensors are" in result.stderr
    assert "--tensors" in result.stderr and not result.stdout
