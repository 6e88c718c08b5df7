"""wheel_code.py FOLDER PACKAGES TORCHGEN: runs the generators of PyTorch's build that a wheel
contains in torchgen/packaged. PACKAGES is the folder that contains torch and torchgen, TORCHGEN one
with nothing but that torchgen: the other packages may be for another Python. The generated code
goes below FOLDER, to the paths that a build in the source tree uses. Needs PyYAML; imports no
torch.
"""
import multiprocessing
import pathlib
import sys


def generate_aten(packages, folder):
    """The dispatcher's entries, the registrations and the wrappers of kernels."""
    import torchgen.gen

    aten = folder / "build/aten/src/ATen"
    shims = folder / "torch/csrc/inductor/aoti_torch/generated"
    aten.mkdir(parents=True, exist_ok=True)
    shims.mkdir(parents=True, exist_ok=True)
    arguments = ["--source-path", str(packages / "torchgen/packaged/ATen"),
                 "--install-dir", str(aten), "--aoti-install-dir", str(shims),
                 "--update-aoti-c-shim", "--per-operator-headers"]
    # From PyTorch 2.14 on, ops written in Python are part of the registrations.
    native_ops = packages / "torch/_native/ops"
    with open(torchgen.gen.__file__) as file:
        if "--native-aot-ops-dir" in file.read() and native_ops.is_dir():
            arguments += ["--native-aot-ops-dir", str(native_ops)]
    sys.argv = ["torchgen.gen", *arguments]
    torchgen.gen.main()


def autograd_inputs(packages):
    packaged = packages / "torchgen/packaged"
    return (str(packaged / "ATen/native/native_functions.yaml"),
            str(packaged / "ATen/native/tags.yaml"), packaged / "autograd")


def generate_autograd(packages, folder):
    """The autograd kernels and nodes."""
    from torchgen.packaged.autograd.gen_autograd import gen_autograd
    from torchgen.selective_build.selector import SelectiveBuilder

    native, tags, autograd = autograd_inputs(packages)
    out = folder / "torch/csrc/autograd/generated"
    out.mkdir(parents=True, exist_ok=True)
    gen_autograd(native, tags, str(out), str(autograd), SelectiveBuilder.get_nop_selector())


def generate_bindings(packages, folder):
    """The Python bindings."""
    from torchgen.packaged.autograd.gen_autograd import gen_autograd_python

    native, tags, autograd = autograd_inputs(packages)
    out = folder / "torch/csrc/autograd/generated"
    out.mkdir(parents=True, exist_ok=True)
    gen_autograd_python(native, tags, str(out), str(autograd))


def main():
    folder, packages, torchgen = (pathlib.Path(argument).absolute() for argument in sys.argv[1:])
    sys.path.insert(0, str(torchgen))
    workers = [multiprocessing.Process(target=work, args=(packages, folder))
               for work in (generate_aten, generate_autograd, generate_bindings)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return max(abs(worker.exitcode) for worker in workers)


if __name__ == "__main__":
    sys.exit(main())
