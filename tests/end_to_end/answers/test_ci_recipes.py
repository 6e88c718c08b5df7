"""The commands of docs/ci.md's recipes, exactly as they appear there."""
import shlex

import pytest

PASSED, FAILED = 0, 1

STEP = """
import torch

model = torch.nn.Linear(8, 1).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(2):
    optimizer.zero_grad()
    loss = model(torch.ones(4, 8, device="cuda")).square().mean()
    loss.backward()
    optimizer.step(){more}
"""

MIXED_STEP = """
import torch

outputs = torch.nn.Linear(8, 1).cuda()(torch.ones(4, 8, device="cuda"))
outputs{more}.sum().backward()
"""

COMPILED_STEP = """
import torch

@torch.compile(backend="eager")
def step(x):
    x = x.square()
    {more}
    return x.sum()

step(torch.ones(8))
"""


# `make test` runs the cases that a check must find; those in which it must find nothing are many.
NOTHING = pytest.param("", PASSED, marks=pytest.mark.verify)


@pytest.fixture(scope="module")
def commands(repository):
    """commands(heading) -> (the section's commands, each as a list of words; its text)."""
    page = (repository / "docs/ci.md").read_text()

    def of_section(heading):
        section = page[page.index(f"## {heading}\n"):].split("\n## ")[0]
        code = "\n".join(line[4:] for line in section.splitlines() if line.startswith("    "))
        lines = [shlex.split(line) for line in code.replace("\\\n", " ").splitlines()]
        return [line[1:] for line in lines if line and line[0] == "optrace"], section

    return of_section


@pytest.fixture
def checked(optrace, python, tmp_path):
    """checked(run, check): runs both commands in tmp_path and returns the result of the second."""

    def run_both(run, check):
        traced = optrace(*run, cwd=tmp_path, environment={"OPTRACE_PYTHON": python}, timeout=300)
        assert traced.returncode == PASSED, traced.stderr
        return optrace(*check, cwd=tmp_path)

    return run_both


@pytest.mark.parametrize("changes", [
    [("float16", "float32")],
    pytest.param([("sm_90", "sm_75")], marks=pytest.mark.verify)])
def test_attention_stops_using_flash(optrace, python, commands, changes):
    environment = {"OPTRACE_PYTHON": python}
    (command,), page = commands("When attention stops using flash")
    result = optrace(*command, environment=environment)
    assert result.returncode == PASSED, result.stdout + result.stderr
    shown = next(line for line in page.splitlines() if line.startswith("    failed  ")).strip()
    for before, after in changes:
        changed = [word.replace(before, after) for word in command]
        result = optrace(*changed, environment=environment)
        assert result.returncode == FAILED, result.stdout + result.stderr
        assert shown in result.stdout and "efficient_attention" in result.stdout


@pytest.mark.parametrize("more, status", [NOTHING, ("\n    print(loss)", FAILED)])
def test_a_new_copy_appears(checked, commands, tmp_path, more, status):
    (run, check), _ = commands("When a new copy appears")
    (tmp_path / "step.py").write_text(STEP.format(more=more))
    result = checked(run, check)
    assert result.returncode == status, result.stdout + result.stderr
    if more:
        assert "step.py:11" in result.stdout and "no implicit copy: " in result.stdout


@pytest.mark.parametrize("more, status", [NOTHING, (".double()", FAILED)])
def test_double_precision(checked, commands, tmp_path, more, status):
    (run, check), _ = commands("When something runs in double precision, or on the CPU")
    (tmp_path / "step.py").write_text(MIXED_STEP.format(more=more))
    result = checked(run, check)
    assert result.returncode == status, result.stdout + result.stderr
    if more:
        assert "no kernel of dtype float64: " in result.stdout


@pytest.mark.parametrize("more, status", [NOTHING, ("torch._dynamo.graph_break()", FAILED)])
def test_torch_compile_breaks_a_graph(checked, commands, tmp_path, more, status):
    (run, check), _ = commands("When torch.compile breaks a graph")
    (tmp_path / "step.py").write_text(COMPILED_STEP.format(more=more))
    result = checked(run, check)
    assert result.returncode == status, result.stdout + result.stderr
    if more:
        assert "no graph break: 1" in result.stdout


# Programs in which no recipe finds anything, one of each kind.
CLEAN = {
    "eager": STEP.format(more=""),
    "compiled": COMPILED_STEP.format(more="").replace('(backend="eager")', ""),
    "with children": """
import torch
from torch.utils.data import DataLoader, TensorDataset

if __name__ == "__main__":
    model = torch.nn.Linear(8, 1)
    for rows, in DataLoader(TensorDataset(torch.ones(8, 8)), batch_size=4, num_workers=2):
        model(rows).square().mean().backward()
""",
    "two ranks": """
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

def work(rank, store):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", store=dist.FileStore(store, 2), rank=rank, world_size=2)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, fused=True)
    for _ in range(2):
        optimizer.zero_grad()
        model(torch.ones(4, 8)).square().mean().backward()
        optimizer.step()
    dist.destroy_process_group()

if __name__ == "__main__":
    mp.spawn(work, ("store",), nprocs=2)
""",
}
RECIPES = ("When a new copy appears", "When something runs in double precision, or on the CPU",
           "When torch.compile breaks a graph")


@pytest.mark.parametrize("torch", [pytest.param("python", marks=pytest.mark.verify),
                                   pytest.param("newest_python", marks=pytest.mark.release)])
@pytest.mark.parametrize("kind", CLEAN)
def test_recipes_pass_on_clean_programs_from_a_cold_cache(request, optrace, commands, tmp_path,
                                                          kind, torch):
    (tmp_path / "step.py").write_text(CLEAN[kind])
    cold = {"OPTRACE_PYTHON": request.getfixturevalue(torch), "OPTRACE_CACHE_DIR": None,
            "XDG_CACHE_HOME": tmp_path / "cache", "TORCHINDUCTOR_CACHE_DIR": tmp_path / "inductor"}
    ((dry_run, of_copies), _), ((_, of_dtypes), _), ((run, of_breaks), _) = map(commands, RECIPES)
    checks = [of_copies, of_dtypes]
    if kind == "compiled":
        dry_run, checks = run, [*checks, of_breaks]
    elif kind != "eager":
        dry_run = ["run", "--children", *dry_run[1:]]
    traced = optrace(*dry_run, cwd=tmp_path, environment=cold, timeout=500)
    assert traced.returncode == PASSED, traced.stderr
    for check in (*checks, [*of_copies[:2], "--expect", "no finding"]):
        result = optrace(*check, cwd=tmp_path, environment=cold)
        assert result.returncode == PASSED, result.stdout + result.stderr
