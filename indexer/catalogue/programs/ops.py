"""ops.py FOLDER OUTPUT: writes the facts about each op in native_functions.yaml and
derivatives.yaml, as parsed by torchgen. FOLDER is a PyTorch source tree, the folder `packaged` of
an installed torchgen, or the folder that contains such a torchgen. OUTPUT gets one JSON object per
line and op, in the order of the yaml; ops that torchgen generates from others come last. Keys:
name, unambiguous_name, line (in native_functions.yaml) and facts, whose keys are those of
indexer/store/op_facts.h.
"""
import collections
import importlib
import json
import pathlib
import re
import sys

# (the three yaml files, the module that reads derivatives.yaml) in a tree and in an installed
# torchgen
LAYOUTS = [("aten/src/ATen/native", "tools/autograd", "tools.autograd.load_derivatives"),
           ("ATen/native", "autograd", "torchgen.packaged.autograd.load_derivatives"),
          ("torchgen/packaged/ATen/native", "torchgen/packaged/autograd",
           "torchgen.packaged.autograd.load_derivatives")]

# A formula of derivatives.yaml: the names of its arguments or results, its text, its line.
Formula = collections.namedtuple("Formula", ["names", "text", "line"])


def read_entries(path, loader):
    """The entries of derivatives.yaml: `name` -> (line, {dispatch key: [Formula]})."""
    import yaml

    def text(node):
        return str(node.value)

    def line(node):
        return node.start_mark.line + 1

    def formulas(mapping):
        return [Formula(tuple(name.strip() for name in text(key).split(",")), text(value),
                        line(key))
                for key, value in mapping.value if isinstance(value, yaml.ScalarNode)]

    entries = {}
    with open(path) as file:
        root = yaml.compose(file, Loader=loader)
    for node in root.value:
        fields = {text(key): value for key, value in node.value}
        if "dispatch" in fields:
            by_key = {text(key): formulas(value) for key, value in fields["dispatch"].value}
        else:
            by_key = {"Default": [formula for formula in formulas(node)
                                  if formula.names != ("name",)
                                  and formula.names != ("output_differentiability",)]}
        entries[text(fields["name"])] = (line(node), by_key)
    return entries


class Derivatives:
    """Maps ops to the entries of derivatives.yaml that torchgen uses for them."""

    def __init__(self, module, native, tags, path, functions):
        from torchgen.api.autograd import match_differentiability_info

        entries = read_entries(path, module.YamlLoader)
        # id of a DifferentiabilityInfo or of its derivatives -> (line, formulas)
        self.entry_of = {}
        self.entry_of_node = {}
        create = module.create_differentiability_info

        def recording(definition, *arguments):
            name = definition["name"]
            made = create(definition, *arguments)
            for key, info in made[1].items():
                line, by_key = entries[name]
                # The copy of a view has the derivatives of the view.
                self.entry_of[id(info)] = self.entry_of[id(info.derivatives)] = line, by_key[key]
                self.entry_of_node[info.op] = line, by_key[key]
            return made

        module.create_differentiability_info = recording
        self.infos, _ = module.load_derivatives(str(path), str(native), str(tags))
        self.matched = {str(match.func.func.name): match.info or {}
                        for match in match_differentiability_info(functions, self.infos)}

    def of(self, function):
        """The `derivatives` of an op's facts."""
        return [self.derivative(key, info, function)
                for key, info in self.matched[str(function.func.name)].items()]

    def derivative(self, key, info, function):
        entry = self.entry_of.get(id(info)) or self.entry_of.get(id(info.derivatives))
        renamed = {}
        if entry is None:
            entry = self.of_reference(info)
            # In the order in which torchgen processes an entry's formulas.
            taken = [formula.names for formula in sorted(entry[1])
                     if is_of_inputs(formula, info.derivatives)]
            renamed = dict(zip(taken, (made.var_names for made in info.derivatives)))
        line, formulas = entry
        inputs = {argument.name for argument in info.func.func.arguments.flat_all}
        made = {"key": key, "node": info.op if info.args_with_derivatives else "", "line": line,
                "backward": [], "forward": []}
        for formula in formulas:
            is_backward = formula.names in renamed or formula.names[0] in inputs
            made["backward" if is_backward else "forward"].append(
                {"arguments": renamed.get(formula.names, formula.names), "text": formula.text,
                 "line": formula.line})
        return made

    def of_reference(self, info):
        """The entry of the op whose derivative a foreach op applies to each tensor."""
        reference = re.match(r"Foreach(.*Backward\d+)", info.op)
        return self.entry_of_node[reference.group(1)]


def is_of_inputs(formula, derivatives):
    return any(made.original_formula == formula.text for made in derivatives)


def dispatch_keys_in_order(entry):
    keys = []
    for names in entry.get("dispatch", {}):
        if names != "__line__":
            keys += [name.strip() for name in names.split(",")]
    return keys


def kernels_of(function, indices, ordered_keys):
    kernels = []
    by_key = {str(key): index for key, index in indices.items()}
    for key in dict.fromkeys([*ordered_keys, *by_key]):
        metadata = by_key[key].index.get(function.func.name) if key in by_key else None
        if metadata is not None:
            prefix = "structured_" if metadata.structured else ""
            kernels.append({"key": key,
                            "name": f"{metadata.cpp_namespace}::{prefix}{metadata.kernel}",
                            "structured": metadata.structured,
                            "ufunc": bool(function.ufunc_inner_loop)
                            and metadata.kernel.startswith("ufunc_")})
    return kernels


def main(folder, output):
    sys.path.insert(0, str(folder))  # The tree's own torchgen comes before an installed one.
    native_folder, autograd_folder, module = next(
        layout for layout in LAYOUTS if (folder / layout[0] / "native_functions.yaml").is_file())
    native = folder / native_folder / "native_functions.yaml"
    tags = folder / native_folder / "tags.yaml"

    import yaml
    from torchgen.gen import LineLoader, parse_native_yaml
    with open(native) as file:
        entries = {entry["func"].split("(")[0]: entry
                   for entry in yaml.load(file, Loader=LineLoader)}
    functions, indices = parse_native_yaml(str(native), str(tags))
    derivatives = Derivatives(importlib.import_module(module), native, tags,
                              folder / autograd_folder / "derivatives.yaml", functions)
    made_from = {str(name): function for function in functions for name in function.autogen}

    with open(output, "w", encoding="utf-8") as file:
        for function in functions:
            name = str(function.func.name)
            origin = made_from.get(name)
            delegate = function.structured_delegate
            facts = {
                "schema": str(function.func),
                "variants": sorted(variant.name for variant in function.variants),
                "python_module": function.python_module or "",
                "tags": sorted(function.tags),
                "structured": function.structured,
                "structured_delegate": delegate.unambiguous_name() if delegate else "",
                "autogenerated_from":
                    f"{origin.namespace}::{origin.func.name}" if origin else "",
                "kernels": kernels_of(function, indices,
                                      dispatch_keys_in_order(entries.get(name, {}))),
                "derivatives": derivatives.of(function),
            }
            json.dump({"name": f"{function.namespace}::{name}",
                       "unambiguous_name": function.func.name.unambiguous_name(),
                       "line": (origin or function).loc.line, "facts": facts}, file)
            file.write("\n")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), sys.argv[2])
