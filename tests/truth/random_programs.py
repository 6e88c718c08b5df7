"""Holds the verdicts of `optrace check` against random programs that keep an account of themselves.

    random_programs.py OPTRACE PYTHON FOLDER FIRST_SEED END_SEED RULES_OF_EACH_PROGRAM

A program has functions of several kinds, which call ops and each other, in situations such as
threads, children and exit handlers. Each call of a function or an op is written to a file when it
happens. What an op calls inside, torch.profiler and sys.setprofile say once for each op.
Exit status 0: no verdict was wrong, and at least 97 % of the rules were decided. Those about the
programs of every fifth seed, which do what a trace lacks, may all be undecided.
"""
import collections
import json
import os
import pathlib
import random
import re
import subprocess
import sys

OPS = """torch.cos(x); torch.sin(x); x.neg(); x.tanh(); x.exp(); x + y; torch.mm(x, y); x @ y
F.relu(x); x.sum(); x.mean(); x.t(); x.view(-1); x.clone(); x.to(torch.float64); x.half(); x > 0
torch.cat([x, y]); torch.stack([x, y]); x.softmax(0); x.clone().copy_(y); x.clone().zero_(); x[0]
x.clone().add_(1); x.sort(); x.cumsum(0); F.linear(x, y); torch.zeros(3); torch.empty(3); x.max()
torch.full((3,), 2.0); x.argmax(); x[0, 0].item(); torch.where(x > 0, x, y); F.gelu(x); x.norm()
F.layer_norm(x, (4,)); F.conv2d(x.view(1, 1, 4, 4), y.view(1, 1, 4, 4)); torch.sigmoid(x)
x.unsqueeze(0); torch.rand(3); F.dropout(x); torch.einsum('ij->ji', x); F.mse_loss(x, y)
(x.requires_grad_() * y).sum().backward(); torch.baddbmm(x[None], y[None], x[None]); torch.ones(4)
""".replace("\n", ";").split(";")
OPS = [op.strip() for op in OPS if op.strip()]
INPUT = f"op {len(OPS) - 1}\\n"  # As the last op, the account makes the inputs of an op.

ACCOUNT = f"""
import os, sys, torch
from torch.nn import functional as F
log = os.open(os.environ["ACCOUNT"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
OPS = [{", ".join(f"lambda x, y: {op}" for op in OPS)}]
# All that is needed are defaults: at the end of the interpreter, globals are gone.
def hit(write=os.write, frame=sys._getframe, log=log):
    caller = frame(1)
    name = caller.f_globals["__name__"].replace("__mp_main__", "__main__")
    write(log, f"{{name}}.{{caller.f_code.co_qualname}}\\n".encode())
def op(number, call=None, ones=torch.ones, write=os.write, log=log, ops=OPS):
    write(log, f"op {{number}}\\n{INPUT}{INPUT}".encode())
    return (call or ops[number])(ones(4, 4), ones(4, 4))
"""

# Prints [{name: calls}] of what each op calls.
MEASURE = """
import account, json, sys, torch
from torch.profiler import profile, ProfilerActivity
def measured(call):
    counts = {}
    def add(name): counts[name] = counts.get(name, 0) + 1
    def called(frame, event, arg):
        if event == "call": add(f"{frame.f_globals.get('__name__')}.{frame.f_code.co_qualname}")
        elif event == "c_call" and getattr(torch, arg.__name__, None) == arg:
            add("torch." + arg.__name__)
    def inputs(): return torch.ones(4, 4), torch.ones(4, 4)
    call(*inputs())  # The first call may import modules.
    x, y = inputs()
    sys.setprofile(called)
    call(x, y)
    sys.setprofile(None)
    x, y = inputs()
    with profile(activities=[ProfilerActivity.CPU]) as profiled: call(x, y)
    # Its events() leave out an op that only calls one of the same name.
    for event in profiled.profiler.kineto_results.events(): add(event.name())
    known = "aten::", "torch.nn.functional.", "torch.functional.", "torch."
    # torch._VF asks for its functions by __getattr__, and so does whatever looks at all modules.
    return {name: n for name, n in counts.items()
            if name.startswith(known) and not name.endswith("__getattr__")}
print(json.dumps([measured(call) for call in account.OPS]))
"""

# Kinds of functions. For NAME, a name is put, for OP the number of an op, for BODY some statements.
FUNCTIONS = [
    "def NAME(*_): hit(); BODY",
    "def NAME(*_): hit()",
    "NAME = lambda *_: (hit(), op(OP))",
    "def NAME(*_):\n def inner(): hit(); op(OP)\n hit(); inner(); inner(); BODY",
    "def NAME(*_):\n def failing(): hit(); op(OP); raise ValueError\n hit()\n try: failing()\n"
    " except ValueError: BODY",
    "def NAME(*depth):\n hit(); BODY\n if len(depth) < 3: NAME(*depth, 1)",
    "def NAME_items(n):\n hit()\n for i in range(n): op(OP); yield i\n"
    "def NAME(*_): hit(); list(NAME_items(3)); next(NAME_items(2)); BODY",
    "async def NAME_later(n):\n hit()\n for i in range(n): op(OP); await asyncio.sleep(0)\n"
    "def NAME(*_):\n async def both(): await asyncio.gather(NAME_later(2), NAME_later(1))\n"
    " hit(); asyncio.run(both()); BODY",
    "class NAME_Net(torch.nn.Module):\n def __init__(self): hit(); super().__init__()\n"
    " def forward(self): hit(); return op(OP)\n"
    "def NAME(*_): hit(); net = NAME_Net(); net(); net(); BODY",
    "class NAME_Thing:\n def __init__(self): hit()\n def __call__(self): hit(); op(OP)\n"
    " @property\n def value(self): hit()\n @staticmethod\n def made(): hit(); op(OP)\n"
    " def __del__(self): hit(); op(OP)\n"
    "def NAME(*_): hit(); thing = NAME_Thing(); thing(); thing.value; NAME_Thing.made(); BODY",
    "def NAME_around(function):\n hit()\n @functools.wraps(function)\n"
    " def wrapper(*a): hit(); return function(*a)\n return wrapper\n"
    "@NAME_around\ndef NAME(*_): hit(); BODY",
    "def NAME_key(i): hit(); return -i\n"
    "def NAME(*_): hit(); sorted('abc', key=lambda c: NAME_key(1)); list(map(NAME_key, [1])); BODY",
]
# For IT, the call of a function is put.
SITUATIONS = [
    "IT()", "for _ in range(3): IT()", "import own_module", "functools.partial(IT, 1)()",
    "t = threading.Thread(target=IT); t.start(); t.join()",
    "t = threading.Thread(target=IT, daemon=True); t.start(); t.join()",
    "with concurrent.futures.ThreadPoolExecutor(2) as pool: list(pool.map(IT, range(5)))",
    "atexit.register(IT)",
    "class Dies:\n  def __del__(self, f=IT): f()\n Dies()",
    "try: IT(); 1 / 0\n except ZeroDivisionError: IT()",
]
CHILDREN = [
    "def forks():\n  hit(); child = os.fork()\n  if child == 0: IT(); os._exit(0)\n"
    "  os.waitpid(child, 0)\n forks()",
    "p = multiprocessing.get_context('fork').Process(target=IT); p.start(); p.join()",
    "p = multiprocessing.get_context('spawn').Process(target=IT); p.start(); p.join()",
    "subprocess.run([sys.executable, __file__, 'IT'])",
]
COMPILED = ["for _ in range(3): op(0, torch.compile(OPS[0], backend='eager'))"]
REPLACED = ["os.execv(sys.executable, [sys.executable, __file__, 'IT'])"]
UNRECORDED = ["class Lives:\n  def __del__(self): IT()\n lives = Lives()"]
IMPORTS = """import asyncio, atexit, concurrent.futures, functools, multiprocessing, os, subprocess
import sys, threading, torch
from account import hit, op, OPS
"""
MEASURES = ("ops", "copies", "launches", "failures", "synchronisations", "fallbacks to CPU")
BACKENDS = {"aten::mm uses blas": True, "aten::mm uses onednn": False, "aten::sin uses mkl": True,
            "aten::cat uses mkl": False, "aten::cos never uses blas": True,
            "aten::cos never uses mkl": False}
RELATIONS = {"<=": int.__le__, ">=": int.__ge__, "<": int.__lt__, ">": int.__gt__,
             "==": int.__eq__, "!=": int.__ne__}


def program_of(choice, seed):
    """Returns the texts of a program and of its module, and what it defines."""
    texts, names = [], []
    for number, kind in enumerate(choice.sample(FUNCTIONS * 2, 2 * len(FUNCTIONS))):
        body = [f"op({choice.randrange(len(OPS))})" for _ in range(choice.randrange(4))]
        body += [f"{choice.choice(names)}()" for _ in range(choice.randrange(2)) if names]
        text = kind.replace("BODY", "; ".join(body) or "pass").replace("NAME", f"f{number}")
        while "OP" in text:
            text = text.replace("OP", str(choice.randrange(len(OPS))), 1)
        texts.append(text)
        names.append(f"f{number}")
    situations = choice.sample(SITUATIONS * 2, 2 * len(SITUATIONS)) + [choice.choice(CHILDREN)]
    situations += {2: REPLACED, 3: COMPILED, 4: UNRECORDED}.get(seed % 5, [])
    called = choice.sample(names, len(names) // 2)
    defined = re.findall(r"^def (\w+)", "\n".join(texts), re.MULTILINE)
    main = [text.replace("IT", choice.choice(
        # A lambda can't be sent to another process.
        [one for one in called if one in defined] if text in CHILDREN else called))
            for text in situations]
    return (IMPORTS + "\n".join(texts) + "\nif __name__ == '__main__' and sys.argv[1:]:\n"
            " globals()[sys.argv[1]]()\nelif __name__ == '__main__':\n " + "\n ".join(main) + "\n",
            IMPORTS + "\n".join(texts[:3]) + "\nf0(); op(0)\n", defined)


def truth_of(account, inside, defined):
    """Returns {name: calls} of an account's lines and of what ops call inside."""
    truth = collections.Counter({f"__main__.{name}": 0 for name in defined} |
                                dict.fromkeys([*MEASURES, "aten::fft_fft", "nn.LSTM.forward",
                                               "dtype float64", "dtype float16"], 0))
    for line, calls in collections.Counter(account.splitlines()).items():
        if not line.startswith("op "):
            truth[line] += calls
            if line.endswith(("_Net.__init__", "_Net.forward")):
                truth[line[:line.rindex(".")]] += calls
            continue
        truth["dtype float64"] += calls * ("float64" in OPS[int(line[3:])])
        truth["dtype float16"] += calls * ("half" in OPS[int(line[3:])])
        for name, inner in inside[int(line[3:])].items():
            truth[name] += inner * calls
            truth["ops"] += inner * calls * name.startswith("aten::")
            truth["copies"] += inner * calls * (name == "aten::copy_")
            if name in ("aten::cos", "aten::neg", "aten::tanh", "aten::t"):
                truth[f"at::_ops::{name[6:]}::call"] += inner * calls
    # A lambda's name is that of others in library code.
    return {name: calls for name, calls in truth.items() if "<lambda>" not in name}


def rules_of(choice, truth, number, backends):
    """Returns {rule: whether it holds}, with those of `backends` whose op is called."""
    rules = {rule: holds for rule, holds in backends.items() if truth.get(rule.split()[0])}
    names = sorted(truth)
    while len(rules) < number:
        name = choice.choice(names)
        calls = truth[name]
        relation = choice.choice(list(RELATIONS))
        bound = max(0, choice.choice([0, calls - 1, calls, calls, calls + 1, 2 * calls]))
        subject = name if name in MEASURES else f"calls {name}"
        if name.startswith("dtype"):
            rules[f"no kernel of {name}"] = calls == 0
        elif name in MEASURES or choice.random() < 0.7:
            rules[f"{subject} {relation} {bound}"] = RELATIONS[relation](calls, bound)
        else:
            rules[subject] = calls > 0
            rules[f"never {subject}"] = calls == 0
    return rules


def verdicts(optrace, python, folder, seed, number, inside):
    """Yields (rule, whether it holds, optrace's answer) for a program."""
    choice = random.Random(seed)
    folder.mkdir()
    program, own, defined = program_of(choice, seed)
    (folder / "program.py").write_text(program)
    (folder / "own_module.py").write_text(own)
    ran = subprocess.run([optrace, "run", "--children", "--python", python, "--trace",
                          folder / "t.trace", "-o", folder / "summary", folder / "program.py"],
                         # A forked child hangs if it enters OpenMP after its parent (GCC 58378).
                         env={**os.environ, "ACCOUNT": str(folder / "account"),
                              "OMP_NUM_THREADS": "1"},
                         capture_output=True, text=True, check=False)
    assert ran.returncode == 0 and "Traceback" not in ran.stderr, (seed, ran.stderr)
    truth = truth_of((folder / "account").read_text(), inside, defined)
    rules = rules_of(choice, truth, number, BACKENDS)
    (folder / "rules.json").write_text(json.dumps({"rules": list(rules)}))
    checked = subprocess.run([optrace, "check", folder / "t.trace", "--format", "json",
                              "--expect", folder / "rules.json"],
                             stdout=subprocess.PIPE, text=True, check=False)
    for (rule, holds), answer in zip(rules.items(), json.loads(checked.stdout)["rules"]):
        yield rule, holds, answer


def main(optrace, python, folder, first, end, number):
    folder = pathlib.Path(folder)
    (folder / "account.py").write_text(ACCOUNT)
    os.environ.update(PYTHONPATH=str(folder), ACCOUNT=os.devnull)
    inside = json.loads(subprocess.run([python, "-c", MEASURE], stdout=subprocess.PIPE, text=True,
                                       check=True).stdout)
    counts = collections.Counter()
    for seed in range(int(first), int(end)):
        for rule, holds, answer in verdicts(optrace, python, folder / str(seed), seed, int(number),
                                            inside):
            status = answer["status"]
            kind = "right" if status == ("passed" if holds else "failed") else "wrong"
            if status == "error":
                kind = "undecided" if seed % 5 != 4 else "not recorded"
            counts[kind] += 1
            if kind in ("wrong", "undecided"):
                print(f"seed {seed}: {kind}: {rule}: {answer['found']}")
    print(dict(counts))
    return counts["wrong"] > 0 or counts["undecided"] > 0.03 * counts.total()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
