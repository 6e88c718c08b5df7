"""python_names.py OUTPUT: writes the names of the Python API of this Python's torch as JSON
objects, one per line and name, sorted, with the keys name, kind, target, file and line. The kinds
are those of PythonKind in indexer/store/index_store.h. Files are relative to the parent folder of
torch.

Classes and functions written in Python are read from their source, so that they need not be
importable; those defined in a function have their qualified name, `f.<locals>.g`. The other members
of the public namespaces (aliases, and functions bound in C++) are read from an imported torch.
"""
import ast
import builtins
import importlib
import importlib.util
import json
import pathlib
import sys
import types
import warnings

PACKAGES = ["torch", "functorch", "torchgen"]

# Namespaces whose members are listed. A namespace that a version lacks is skipped.
NAMESPACES = """
torch torch._C torch.accelerator torch.amp torch.ao.quantization torch.autograd
torch.autograd.forward_ad torch.autograd.functional torch.autograd.grad_mode torch.autograd.graph
torch.autograd.profiler torch.backends torch.backends.cpu torch.backends.cuda torch.backends.cudnn
torch.backends.mkldnn torch.compiler torch.cpu torch.cuda torch.cuda.amp torch.cuda.memory
torch.cuda.nvtx torch.distributed torch.distributions torch.export torch.fft torch.func
torch.functional torch.futures torch.fx torch.hub torch.jit torch.library torch.linalg torch.masked
torch.mps torch.mtia torch.multiprocessing torch.nested torch.nn torch.nn.attention
torch.nn.functional torch.nn.init torch.nn.modules torch.nn.parallel torch.nn.parameter
torch.nn.quantized torch.nn.utils torch.nn.utils.parametrizations torch.nn.utils.parametrize
torch.nn.utils.prune torch.nn.utils.rnn torch.optim torch.optim.lr_scheduler torch.optim.swa_utils
torch.overrides torch.package torch.profiler torch.quantization torch.random torch.serialization
torch.signal.windows torch.sparse torch.special torch.storage torch.testing torch.utils
torch.utils.checkpoint torch.utils.data torch.utils.dlpack torch.utils.hooks torch.xpu
""".split()

# Namespaces of functions bound in C++, and their public names. The first namespace that contains a
# function determines its name.
BOUND = [("torch._C._nn", "torch._C._nn"), ("torch._C._linalg", "torch._C._linalg"),
         ("torch._C._fft", "torch._C._fft"), ("torch._C._special", "torch._C._special"),
         ("torch._C._sparse", "torch._C._sparse"), ("torch._C._nested", "torch._C._nested"),
         ("torch._C._VariableFunctions", "torch"), ("torch._C", "torch._C")]

BUILTIN_FUNCTIONS = (types.BuiltinFunctionType, types.MethodDescriptorType,
                     types.WrapperDescriptorType, types.ClassMethodDescriptorType)
BUILTIN_ATTRIBUTES = (types.GetSetDescriptorType, types.MemberDescriptorType)


def dotted(node):
    """`a.b` for the expressions `a.b` and `a.b[T]`; None for any other."""
    if isinstance(node, ast.Subscript):
        return dotted(node.value)
    if isinstance(node, ast.Attribute):
        start = dotted(node.value)
        return start and f"{start}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else None


def is_type_checking(test):
    return (dotted(test) or "").split(".")[-1] == "TYPE_CHECKING"


def is_stand_in(node):
    """True for an overload and for a property's setter or deleter, which are not the definition."""
    names = [(dotted(decorator) or "").split(".")[-1] for decorator in node.decorator_list]
    return any(name in ("overload", "_overload", "_overload_method", "setter", "deleter")
               for name in names)


class SourceModule:
    """The names that the source of a module binds."""

    def __init__(self, name, file, tree, is_package):
        self.name = name
        self.file = file
        self.package = name if is_package else name.rpartition(".")[0]
        self.definitions = {}  # `Linear.forward` -> (is it real?, kind, line, base classes)
        self.imports = {}  # `F` -> `torch.nn.functional`
        self.stars = []
        self.assignments = {}  # `max_pool2d` -> line
        self.read(tree.body, "", real=True)

    def define(self, name, real, kind, line, bases=()):
        if real or not self.definitions.get(name, (False,))[0]:
            self.definitions[name] = (real, kind, line, bases)

    def read(self, statements, prefix, real):
        for node in statements:
            if isinstance(node, ast.ClassDef):
                bases = [name for name in map(dotted, node.bases) if name]
                self.define(prefix + node.name, real, "c", node.lineno, bases)
                self.read(node.body, f"{prefix}{node.name}.", real)
            elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                real_one = real and not is_stand_in(node)
                self.define(prefix + node.name, real_one, "f", node.lineno)
                self.read(node.body, f"{prefix}{node.name}.<locals>.", real_one)
            elif isinstance(node, ast.If):
                # The first branch is the intended one; later definitions replace earlier ones.
                self.read(node.orelse, prefix, real)
                self.read(node.body, prefix, real and not is_type_checking(node.test))
            elif isinstance(node, ast.Try):
                for handler in node.handlers:
                    self.read(handler.body, prefix, real)
                # The body is intended, the handlers are substitutes.
                self.read([*node.body, *node.orelse, *node.finalbody], prefix, real)
            elif isinstance(node, (ast.With, ast.For, ast.While)):
                self.read(node.body, prefix, real)
            elif not prefix:
                self.read_binding(node)
            if isinstance(node, (ast.Assign, ast.AnnAssign)) and "<locals>" not in prefix:
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                for target in targets:
                    if isinstance(target, ast.Name):
                        self.assignments[prefix + target.id] = node.lineno

    def read_binding(self, node):
        if isinstance(node, ast.Import):
            for alias in node.names:
                bound = alias.asname or alias.name.split(".")[0]
                self.imports[bound] = alias.name if alias.asname else bound
        elif isinstance(node, ast.ImportFrom):
            source = self.source_of(node)
            for alias in node.names:
                if alias.name == "*":
                    self.stars.append(source)
                else:
                    self.imports[alias.asname or alias.name] = f"{source}.{alias.name}"
        elif isinstance(node, ast.Assign) and len(node.targets) == 1:
            value = dotted(node.value)
            if (isinstance(node.targets[0], ast.Name) and value
                    and not isinstance(node.value, ast.Subscript)
                    and value != node.targets[0].id):
                self.imports.setdefault(node.targets[0].id, f"{self.name}.{value}")

    def source_of(self, node):
        if node.level == 0:
            return node.module
        parents = self.package.split(".")
        parents = parents[:len(parents) - node.level + 1]
        return ".".join([*parents, node.module] if node.module else parents)


class Source:
    """All modules below the parent folder of torch."""

    def __init__(self, site):
        self.modules = {}
        for package in PACKAGES:
            for path in sorted((site / package).rglob("*.py")):
                self.add(path, path.relative_to(site))
        # `Linear` -> the modules that define that name.
        self.holders = {}
        for module in self.modules.values():
            for name in module.definitions:
                self.holders.setdefault(name, []).append(module.name)

    def add(self, path, file):
        is_package = file.name == "__init__.py"
        parts = file.parent.parts if is_package else (*file.parent.parts, file.stem)
        if all(part.isidentifier() for part in parts):
            try:
                tree = ast.parse(path.read_bytes())
            except (SyntaxError, ValueError, RecursionError, OSError):
                return  # A template or a file for another Python version: not a module here.
            name = ".".join(parts)
            self.modules[name] = SourceModule(name, file.as_posix(), tree, is_package)

    def split(self, name):
        """(module, `Linear.forward`) for a full name; the module is the longest one that exists."""
        parts = name.split(".")
        for count in range(len(parts), 0, -1):
            module = self.modules.get(".".join(parts[:count]))
            if module:
                return module, ".".join(parts[count:])
        return None, name

    def defines(self, name):
        module, rest = self.split(name)
        return module is not None and (not rest or rest in module.definitions)

    def resolve(self, name):
        """The full name under which a name is defined, resolved through imports."""
        for _ in range(20):
            module, rest = self.split(name)
            if module is None or not rest or rest in module.definitions:
                return name
            first, _, others = rest.partition(".")
            if first in module.imports:
                target = module.imports[first]
            else:
                target = next((f"{star}.{first}" for star in module.stars
                               if self.defines(f"{star}.{first}")
                               or first in getattr(self.modules.get(star), "imports", {})), None)
            if target is None or target == f"{module.name}.{first}":
                return name
            name = f"{target}.{others}" if others else target
        return name

    def base_name(self, module, name):
        first = name.split(".")[0]
        if first in module.definitions or first in module.imports or not hasattr(builtins, first):
            return self.resolve(f"{module.name}.{name}")
        return name

    def names(self):
        for module in self.modules.values():
            yield module.name, "m", "", module.file, 1
            for name, (_, kind, line, bases) in module.definitions.items():
                target = ",".join(self.base_name(module, base) for base in bases)
                yield f"{module.name}.{name}", kind, target, module.file, line


class Namespaces:
    """The members of an imported torch that its source does not define."""

    def __init__(self, source):
        self.source = source
        self.names = {}  # name -> (kind, target, file, line)
        self.bound = {}  # id of a function bound in C++ -> its name
        self.kept = []  # Keeps the objects alive, so that no id is reused.
        for namespace, known_as in BOUND:
            self.read_bound(namespace, known_as)

    def get(self, name):
        """The module or class with that name; None if there is none."""
        try:
            return importlib.import_module(name)
        except Exception:  # Importing may raise anything.
            holder, _, last = name.rpartition(".")
            try:
                return getattr(importlib.import_module(holder), last, None)
            except Exception:
                return None

    def members(self, namespace):
        """(name, object), sorted by name, without names such as `__name__`."""
        found = dict(vars(namespace)) if hasattr(namespace, "__dict__") else {}
        for name in dir(namespace):  # Members of classes and C++ objects without a __dict__.
            if name not in found:
                try:
                    found[name] = getattr(namespace, name)
                except Exception:
                    continue
        return [(name, found[name]) for name in sorted(found)
                if not (name.startswith("__") and name.endswith("__"))]

    def read_bound(self, namespace, known_as):
        held = self.get(namespace)
        public = self.get(known_as)
        if held is None:
            return
        if isinstance(held, types.ModuleType):
            self.names[namespace] = ("m", "", "", 0)
        for name, value in self.members(held):
            if isinstance(value, types.BuiltinFunctionType):
                is_public = getattr(public, name, None) is value
                full = f"{known_as if is_public else namespace}.{name}"
                self.kept.append(value)
                self.add(f"{namespace}.{name}", "b", self.bound.setdefault(id(value), full))

    def bound_modules(self):
        """The modules in torch._C, such as torch._C._functorch."""
        return [f"torch._C.{name}" for name, value in self.members(self.get("torch._C"))
                if isinstance(value, types.ModuleType)]

    def add(self, name, kind, target, line=0, file=""):
        """Adds a name. `target` is the definition's name, or `name` itself if it is no alias."""
        if kind == "b":
            self.names.setdefault(target, ("b", "", "", 0))
        if name != target and not self.source.defines(name):
            self.names.setdefault(name, ("a", target, file, line))

    def defined_name(self, value):
        """The name under which Python source defines a class or function; None if there is none."""
        if "<locals>" in value.__qualname__:
            return None  # One of many objects made by that function.
        name = f"{value.__module__}.{value.__qualname__}"
        if self.source.defines(name):
            return name
        # torch.Tensor names another module than the one that defines it.
        for holder in self.source.holders.get(value.__qualname__, []):
            module = sys.modules.get(holder)
            if module is not None and getattr(module, value.__qualname__, None) is value:
                return f"{holder}.{value.__qualname__}"
        return None

    def read(self, namespace):
        held = self.get(namespace)
        if held is None:
            return
        public = getattr(held, "__all__", ())
        for name, value in self.members(held):
            try:
                self.read_member(namespace, name, value, name in public)
            except Exception:  # An object that can't be inspected must not affect the others.
                continue

    def read_member(self, namespace, name, value, is_public):
        full = f"{namespace}.{name}"
        if isinstance(value, types.ModuleType) or self.source.defines(full):
            return
        if isinstance(value, types.BuiltinFunctionType):
            if str(value.__module__).split(".")[0] in PACKAGES or id(value) in self.bound:
                self.add(full, "b", self.bound.get(id(value), full))
        elif isinstance(value, type):
            defined = self.defined_name(value)
            if value.__module__.split(".")[0] not in PACKAGES:
                return
            if defined is None:
                self.read_bound_class(full, value)
            elif is_public or namespace == "torch" or defined.startswith(namespace + "."):
                self.add(full, "a", defined)
        elif callable(value):
            self.read_function(namespace, name, value)

    def read_bound_class(self, full, value):
        name = self.bound_class(value)
        self.add(full, "b", name)
        for member, descriptor in vars(value).items():
            # torch.FloatTensor has a copy of all members of a tensor. pybind11's methods have no
            # __objclass__.
            is_own = (getattr(descriptor, "__objclass__", None) is value
                      or type(descriptor).__name__ == "instancemethod")
            if is_own and member[:2] != "__":
                self.add(f"{name}.{member}", "b", f"{name}.{member}")

    def bound_class(self, value):
        """`torch.Size`, also if the class states a name under which it can't be accessed."""
        name = f"{value.__module__}.{value.__qualname__}"
        holder, _, last = name.rpartition(".")
        public = getattr(sys.modules.get("torch"), last, None)
        if public is value:
            return f"torch.{last}"
        return name if getattr(sys.modules.get(holder), last, None) is value else f"torch._C.{last}"

    def read_function(self, namespace, name, value):
        full = f"{namespace}.{name}"
        if hasattr(value, "__qualname__") and hasattr(value, "__module__"):
            defined = self.defined_name(value)
            if defined is not None:
                self.add(full, "a", defined)
                return
        # Made by a call: the best known location is the line that binds the name.
        resolved = self.source.resolve(full)
        module, rest = self.source.split(resolved)
        if module is not None and rest in module.definitions:
            self.add(full, "a", resolved)
        elif module is not None and rest in module.assignments and "<" not in type(value).__name__:
            self.names.setdefault(resolved, ("f", "", module.file, module.assignments[rest]))
            if resolved != full:
                self.add(full, "a", resolved)

    def read_tensor(self):
        """torch.Tensor's methods and attributes, most of which are bound in C++."""
        base = self.get("torch._C.TensorBase") or self.get("torch._C._TensorBase")
        tensor = self.get("torch.Tensor")
        if base is None or tensor is None:
            return
        own = vars(tensor)
        for name in sorted({*own, *vars(base)} - {"__dict__", "__weakref__"}):
            value = own[name] if name in own else vars(base)[name]
            if isinstance(value, staticmethod):
                value = value.__func__
            full = f"torch.Tensor.{name}"
            in_base = f"{base.__module__}.{base.__name__}.{name}"
            if name in own and not isinstance(value, (*BUILTIN_FUNCTIONS, *BUILTIN_ATTRIBUTES)):
                function = getattr(value, "__func__", getattr(value, "fget", value))
                if hasattr(function, "__qualname__") and self.defined_name(function):
                    self.add(full, "a", self.defined_name(function))
                if isinstance(vars(base).get(name), (*BUILTIN_FUNCTIONS, *BUILTIN_ATTRIBUTES)):
                    self.add(in_base, "b", in_base)
            elif isinstance(value, (*BUILTIN_FUNCTIONS, *BUILTIN_ATTRIBUTES)):
                actual = f"torch.Tensor.{value.__name__}"
                self.add(full, "b", actual if value is vars(base).get(value.__name__) else full)
                if name in vars(base):
                    self.add(in_base, "b", full)


def main(output):
    site = pathlib.Path(importlib.util.find_spec("torch").origin).parent.parent
    source = Source(site)
    found = {}
    warnings.simplefilter("ignore")  # Accessing deprecated members warns.
    try:
        importlib.import_module("torch")
        namespaces = Namespaces(source)
        namespaces.read_tensor()
        for namespace in [*NAMESPACES, *namespaces.bound_modules()]:
            namespaces.read(namespace)
        found.update(namespaces.names)
    except ImportError:
        pass  # Only the source is listed then.
    found.update((name, rest) for name, *rest in source.names())

    with open(output, "w", encoding="utf-8") as file:
        for name, (kind, target, place, line) in sorted(found.items()):
            json.dump({"name": name, "kind": kind, "target": target, "file": place, "line": line},
                      file)
            file.write("\n")


if __name__ == "__main__":
    main(sys.argv[1])
