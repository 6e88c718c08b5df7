"""Dry runs of the CUDA workloads, compared with GPUs' recordings: fixtures/cuda and its README."""
import fnmatch
import json
import os
import pathlib
import subprocess
import sys
import tarfile

import pytest

WORKLOADS = pathlib.Path(__file__).resolve().parents[2] / "cuda_workloads"
FIXTURES = WORKLOADS.parents[1] / "fixtures/cuda"
sys.path.insert(0, str(WORKLOADS))

import record  # noqa: E402
from launches import launches  # noqa: E402
from workloads import WORKLOADS as ALL  # noqa: E402

# Known differences of dry runs: (workload, kind, layer, pattern of the step) -> reason. An entry
# that no longer matches a difference is an error.
KNOWN_DIFFERENCES = {}

# What every system with glibc that can import torch has.
GLIBC_SYSTEM = ("libc.so.", "libm.so.", "libstdc++.so.", "libgcc_s.so.", "/lib")

# A twelfth of the suite, with workloads of each kind.
TWELFTH = ["add_broadcast", "mm", "conv2d", "softmax", "batch_norm_training", "attention_flash",
           "lstm", "sorting", "embedding", "adam", "fft_complex", "cholesky"]


@pytest.fixture(scope="module")
def pythons(python, newest_python):
    return {record.torch_version(path): path for path in (python, newest_python)}


@pytest.fixture(scope="module")
def dry(optrace, tmp_path_factory):
    """dry(python, arch, names) -> the folder of a new recording on an emulated GPU."""

    def make(python, arch, names=()):
        folder = tmp_path_factory.mktemp(arch)
        return record.record(optrace.command, python, folder, names, dry_run=arch)

    return make


def finished_in_both(first, second):
    errors = [record.read_recording(folder)["workloads"] for folder in (first, second)]
    return [name for name in errors[0] if errors[0][name] is None and errors[1].get(name) is None]


def differences(optrace, first, second):
    """Returns [(workload, kind, layer, name of the step, the whole difference)]."""
    comparisons = record.compare(optrace.command, first, second)
    return [(name, found["kind"], found["layer"], found["path"][-1], found)
            for name in finished_in_both(first, second)
            for found in comparisons[name]["differences"]]


def unexplained(found):
    """Returns differences without an entry in KNOWN_DIFFERENCES, and entries that match none."""
    def explains(known, one):
        return all(fnmatch.fnmatchcase(text, pattern) for text, pattern in zip(one, known))
    left = [one for one in found if not any(explains(known, one) for known in KNOWN_DIFFERENCES)]
    idle = [known for known in KNOWN_DIFFERENCES
            if not any(explains(known, one) for one in found)]
    return left, idle


def test_dry_runs_are_what_gpus_did(optrace, repository, pythons, dry):
    """Dry runs equal GPUs' recordings. Missing ones are listed; the next tests check the rest."""
    fixtures = repository / "fixtures/cuda"
    lacking = record.lacking(fixtures, list(pythons))
    if lacking:
        print(lacking)
    found, compared = [], []
    for folder in record.recordings(fixtures):
        about = record.read_recording(folder)
        assert not about["dry_run"], f"{folder} was not recorded on a GPU"
        if about["torch"] in pythons:
            compared.append(folder.name)
            names = list(about["workloads"])
            assert set(names) <= set(ALL)
            found += differences(optrace, dry(pythons[about["torch"]], about["arch"], names),
                                 folder)
    left, idle = unexplained(found)
    assert not left and not idle
    missing = [name for version in pythons for name in
               (f"{arch}-{version}" for arch in record.ARCHITECTURES) if name not in compared]
    assert all(name in lacking for name in missing)


@pytest.mark.verify
def test_parts_are_told_apart(optrace, python, dry):
    """The recording of a dry run, in place of a GPU, is complete; that of another GPU differs."""
    recorded = dry(python, "sm_80", TWELFTH)
    about = record.read_recording(recorded)
    assert list(about["workloads"]) == TWELFTH and set(about["workloads"].values()) == {None}
    assert about["arch"] == "sm_80" and about["torch"] == record.torch_version(python)
    assert recorded.name == f"sm_80-{about['torch']}" and about["dry_run"]
    assert about["cudnn"] >= 90000 and about["cuda"]
    sizes = {path.name: path.stat().st_size for path in recorded.iterdir()}
    assert set(sizes) == {"recording.json", *(f"{name}.json.xz" for name in TWELFTH)}
    # The whole suite must stay below three megabytes.
    assert sum(sizes.values()) < 3_000_000 * len(TWELFTH) / len(ALL), sizes

    # Launches that depend on the number of multiprocessors differ.
    found = differences(optrace, recorded, dry(python, "sm_90", TWELFTH))
    assert any(layer == "device" and kind == "changed" and one["what"] == "calls"
               for _, kind, layer, _, one in found), found


@pytest.mark.verify
def test_the_pack_for_a_gpu(build, repository, python, tmp_path):
    """The pack traces in an empty folder, with only PATH and cache folders in the environment."""
    pack = tmp_path / "pack.tar.xz"
    result = subprocess.run([repository / "setup/pack-for-gpu.sh", pack], capture_output=True,
                            text=True, env={**os.environ, "OPTRACE_BUILD": str(build)})
    assert result.returncode == 0, result.stderr
    assert pack.stat().st_size < 64 << 20
    with tarfile.open(pack) as archive:
        archive.extractall(tmp_path)
    caches = {name: os.environ[name] for name in ("HOME", "XDG_CACHE_HOME") if name in os.environ}
    linked = subprocess.run(["ldd", tmp_path / "optrace-gpu/build/optrace"], capture_output=True,
                            text=True)
    assert "not found" not in linked.stdout
    # Statically linked libraries are not listed; all others that glibc lacks are in the pack.
    found = [line for line in linked.stdout.splitlines() if "=> /" in line]
    assert any("libZydis" in line for line in found)
    for line in found:
        assert str(tmp_path) in line or line.split()[0].startswith(GLIBC_SYSTEM), line
    minimal = {"cwd": tmp_path, "env": {"PATH": "/usr/bin:/bin", **caches}, "text": True}
    traced = subprocess.run([tmp_path / "optrace-gpu/build/optrace", "conv2d", "--python", python],
                            capture_output=True, **minimal)
    assert traced.returncode == 0, traced.stderr
    assert "aten::mkldnn_convolution" in traced.stdout
    recorder = tmp_path / "optrace-gpu/tests/cuda_workloads/record.py"
    lacking = subprocess.run([python, recorder, "--lacking", "--output", tmp_path / "out"],
                             capture_output=True, **minimal)
    assert lacking.returncode == 0 and "no GPU has recorded sm_80-" in lacking.stdout


def test_a_recording_of_another_format(tmp_path):
    (tmp_path / "recording.json").write_text('{"format": "optrace.recording/9"}')
    with pytest.raises(record.Failed, match="optrace.recording/9, not optrace.recording/1"):
        record.read_recording(tmp_path)


def test_what_is_lacking_is_said(run_program, python, tmp_path):
    result = run_program([python, WORKLOADS / "record.py", "--lacking", "--output", tmp_path])
    assert result.returncode == 0
    version = record.torch_version(python)
    assert f"no GPU has recorded sm_80-{version}, sm_90-{version} yet" in result.stdout
    folder = tmp_path / f"sm_80-{version}"
    folder.mkdir()
    (folder / "recording.json").write_text("{}")
    result = run_program([python, WORKLOADS / "record.py", "--lacking", "--output", tmp_path])
    assert f"no GPU has recorded sm_90-{version} yet" in result.stdout


def test_a_training_script_launches_what_it_did_on_an_h200(optrace, python, tmp_path):
    """The reference torch is older: where elements are small, a thread takes half as many."""
    recorded = json.loads((FIXTURES / "h200-training.json").read_text())
    report = tmp_path / "report.json"
    result = optrace("run", f"--dry-run=sm_90,sms={recorded['about']['multiprocessors']}",
                     "--python", python, "--format", "json", "-o", report,
                     WORKLOADS / "training.py", timeout=400)
    assert result.returncode == 0, result.stderr
    there, here = ({json.dumps(launch) for launch in found}
                   for found in (recorded["launches"], launches(json.loads(report.read_text()))))
    assert len(there & here) == 24
    gone, new = (sorted(map(json.loads, found)) for found in (there - here, here - there))
    assert [launch[:2] for launch in gone] == [launch[:2] for launch in new]
    assert all(kernel.endswith("::vectorized_elementwise_kernel") for _, kernel, *_ in gone)
    assert sorted(grid for _, _, [grid, _, _], _ in gone) == \
        sorted((grid + 1) // 2 for _, _, [grid, _, _], _ in new)


@pytest.mark.verify
def test_the_newest_torch_launches_what_an_h200_did(optrace, newest_python, tmp_path):
    """The H200's torch is older; its kernels for the other workloads were others."""
    recorded = json.loads((FIXTURES / "h200-workloads.json").read_text())
    report = tmp_path / "report.json"
    names = ["adam", "add_broadcast", "attention_flash", "batch_norm_training", "cholesky",
             "conv2d", "fft_complex", "mm", "softmax", "sorting", "unique_and_search"]
    result = optrace("run", f"--dry-run=sm_90,sms={recorded['about']['multiprocessors']}",
                     "--python", newest_python, "--format", "json", "-o", report,
                     WORKLOADS / "run_workloads.py", *names, timeout=400)
    assert result.returncode == 0, result.stderr
    found = {name: launches(one) for name, one in
             record.workload_reports(json.loads(report.read_text())).items()}
    # When the H200 was recorded, what the engine does after a node was not counted below the node.
    found["adam"].remove(["aten::sum.dim_IntList", "at::native::reduce_kernel", [1, 1, 1],
                          [4, 8, 1]])
    for name in names:
        assert found[name] == recorded["workloads"][name], name
