#include "lookup/source_compare/source_comparison.h"

#include <algorithm>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "indexer/store/index_writer.h"
#include "lookup/source_compare/source_comparison_output.h"
#include "platform/files/private_folder.h"

using namespace optrace;
using Catch::Matchers::Contains;

namespace {

using Contents = IndexContents;
using ChangeKind = OpChange::Kind;

constexpr const char* kYaml = "aten/src/ATen/native/native_functions.yaml";
constexpr const char* kGenerated = "build/aten/src/ATen/RegisterCPU.cpp";
constexpr const char* kWritten = "aten/src/ATen/native/Fallbacks.cpp";

Contents::Op op(const std::string& name, const OpFacts& facts) {
  std::string unambiguous = name.substr(name.find("::") + 2);
  std::ranges::replace(unambiguous, '.', '_');
  return {"" + name, unambiguous, 7, to_json(facts)};
}

Contents::Registration kernel(const std::string& name, const std::string& key,
                              const std::string& function, const char* file = kGenerated) {
  return {RegistrationKind::kernel, name, key, function, file, 3};
}

OpFacts add_facts() {
  OpFacts facts;
  facts.schema = "add(Tensor self, Tensor other) -> Tensor";
  facts.variants = {"function"};
  facts.kernels = {{"CPU", "at::native::add", false, false},
                   {"CompositeImplicitAutograd", "at::native::add_composite", false, false}};
  facts.derivatives = {{"Default", "AddBackward0", 5, {{{"self"}, "grad *\n  1", 6}}, {}}};
  return facts;
}

Contents old_version() {
  Contents contents;
  contents.meta = {{"torch_version", "2.6.0"}, {"git_version", std::string(40, 'a')}};
  OpFacts gone;
  gone.schema = "gone(Tensor self) -> Tensor";
  contents.ops = {op("aten::add", add_facts()), op("aten::gone", gone)};
  contents.registrations = {
      kernel("aten::add", "CPU", "_ZN2at3addEv"),
      kernel("aten::add", "Meta", "_ZN2at8add_metaEv"),
      kernel("aten::unknown", "CPU", "_ZN2at7unknownEv"),  // Not declared.
      {RegistrationKind::fallback, "_", "Conjugate", "_ZN2at4conjEv", kWritten, 9},
      {RegistrationKind::definition, "mine::op", "", "", kWritten, 11}};
  contents.python_names = {{"torch._refs.gone", 'f', "", "torch/_refs/__init__.py", 4},
                           {"torch._refs.both", 'f', "", "torch/_refs/__init__.py", 5}};
  return contents;
}

Contents new_version() {
  Contents contents = old_version();
  contents.meta = {{"torch_version", "2.7.0"}, {"git_version", std::string(40, 'b')}};
  OpFacts add = add_facts();
  add.schema = "add(Tensor self, Tensor other, Scalar alpha) -> Tensor";
  add.kernels[0].name = "at::native::add_faster";
  add.kernels.pop_back();
  add.derivatives[0].backward[0].text = "grad * alpha";
  OpFacts fresh;
  fresh.schema = "fresh(Tensor self) -> Tensor";
  contents.ops = {op("aten::add", add), op("aten::fresh", fresh)};
  contents.registrations[0].function = "_ZN2at10add_fasterEv";  // Follows from the yaml.
  contents.registrations[1].function = "_ZN2at9add_meta2Ev";
  contents.registrations[3].function = "_ZN2at5conj2Ev";
  contents.python_names[0].name = "torch._refs.fresh";
  return contents;
}

class Compared {
 public:
  Compared(const Contents& first, const Contents& second)
      : first_(written("first.index", first)), second_(written("second.index", second)) {}

  SourceComparison run(const SourceComparisonOptions& options = {}) const {
    return compare_sources(first_, second_, options);
  }

 private:
  Index written(const char* name, const Contents& contents) const {
    write_index(contents, folder_.path() / name);
    return Index::open(folder_.path() / name);
  }

  const PrivateFolder folder_;
  const Index first_;
  const Index second_;
};

std::vector<std::string> names(const std::vector<ComparedOp>& ops) {
  std::vector<std::string> names;
  names.reserve(ops.size());
  for (const ComparedOp& one : ops) names.push_back(one.name);
  return names;
}

// Returns "kernel CPU: a -> b".
std::vector<std::string> lines(const std::vector<OpChange>& changes) {
  std::vector<std::string> lines;
  lines.reserve(changes.size());
  for (const OpChange& change : changes)
    lines.push_back(std::string(name_of(change.kind)) + " " + change.key + ": " + change.before +
                    " -> " + change.after);
  return lines;
}

}  // namespace

TEST_CASE("two versions differ in their ops, kernels, derivatives and registrations",
          "[source_comparison]") {
  const SourceComparison comparison = Compared(old_version(), new_version()).run();
  CHECK(names(comparison.added) == std::vector<std::string>{"aten::fresh"});
  CHECK(names(comparison.removed) == std::vector<std::string>{"aten::gone"});
  CHECK(comparison.removed[0].schema == "gone(Tensor self) -> Tensor");
  CHECK(comparison.removed[0].file == kYaml);
  REQUIRE(names(comparison.changed) == std::vector<std::string>{"aten::add"});
  const std::string before = "add(Tensor self, Tensor other) -> Tensor";
  const std::string after = "add(Tensor self, Tensor other, Scalar alpha) -> Tensor";
  CHECK(lines(comparison.changed[0].changes) ==
        std::vector<std::string>{fmt::format("schema : {} -> {}", before, after),
                                 "kernel CPU: at::native::add -> at::native::add_faster",
                                 "kernel CompositeImplicitAutograd: at::native::add_composite -> ",
                                 "derivative self: grad * 1 -> grad * alpha",
                                 "registration Meta: at::add_meta -> at::add_meta2"});
  CHECK(lines(comparison.fallbacks) ==
        std::vector<std::string>{"registration Conjugate: at::conj -> at::conj2"});
  REQUIRE(comparison.decompositions_added.size() == 1);
  CHECK(comparison.decompositions_added[0].name == "torch._refs.fresh");
  REQUIRE(comparison.decompositions_removed.size() == 1);
  CHECK(comparison.decompositions_removed[0].name == "torch._refs.gone");
  CHECK(comparison.not_compared.empty());
  CHECK(comparison.differences() == 6);
}

TEST_CASE("a version does not differ from itself", "[source_comparison]") {
  const SourceComparison comparison = Compared(old_version(), old_version()).run();
  CHECK(comparison.differences() == 0);
  CHECK(comparison.not_compared.empty());
}

TEST_CASE("patterns select ops and dispatch keys", "[source_comparison]") {
  const Compared compared(old_version(), new_version());
  const SourceComparison of_op = compared.run({.ops = {"fre*"}, .keys = {}});
  CHECK(of_op.differences() == 2);  // The op and its decomposition.
  CHECK(names(of_op.added) == std::vector<std::string>{"aten::fresh"});
  const SourceComparison of_key = compared.run({.ops = {"aten::add"}, .keys = {"Me*"}});
  REQUIRE(of_key.changed.size() == 1);
  CHECK(lines(of_key.changed[0].changes) ==
        std::vector<std::string>{"registration Meta: at::add_meta -> at::add_meta2"});
  CHECK(of_key.differences() == 1);
}

TEST_CASE("what an index lacks is not compared", "[source_comparison]") {
  // An index without the sources that PyTorch's build does not generate.
  Contents generated = old_version();
  std::erase_if(generated.registrations,
                [](const auto& one) { return std::string_view(one.file) == kWritten; });
  const SourceComparison lacking = Compared(old_version(), generated).run();
  CHECK(lacking.differences() == 0);
  REQUIRE(lacking.not_compared.size() == 1);
  CHECK_THAT(lacking.not_compared[0], Contains("second.index") && Contains("generated code"));

  Contents partial = old_version();
  partial.meta["partial"] = "1";
  partial.python_names.clear();
  const SourceComparison part = Compared(partial, old_version()).run();
  CHECK(part.differences() == 0);
  CHECK(part.not_compared.size() == 2);
}

TEST_CASE("the shipped index is compared with one derived from it", "[source_comparison]") {
  const Index shipped = Index::open(OPTRACE_SHIPPED_INDEX);
  CHECK(compare_sources(shipped, shipped, {}).differences() == 0);

  // The same ops and registrations, but relu is gone, and gelu's derivative and kernels differ.
  Contents contents;
  contents.meta = {{"torch_version", "2.6.1"}};
  for (const OpEntry& entry : shipped.ops()) {
    if (entry.name == "aten::relu") continue;
    OpFacts facts = shipped.facts_of(entry);
    if (entry.name == "aten::gelu") {
      for (OpFacts::Kernel& one : facts.kernels)
        if (one.key == "MkldnnCPU") one.name += "_2";
      REQUIRE(facts.derivatives.size() == 1);
      facts.derivatives[0].backward[0].text += " * 2";
    }
    contents.ops.push_back({std::string(entry.name), std::string(entry.unambiguous_name),
                            entry.location.line, to_json(facts)});
  }
  for (const Registration& one : shipped.registrations()) {
    if (one.name == "aten::relu" || one.kind == RegistrationKind::stub) continue;
    contents.registrations.push_back({one.kind, std::string(one.name), std::string(one.key),
                                      std::string(one.function), std::string(one.location.file),
                                      one.location.line + 1});
  }
  for (const PythonName& one : shipped.python_names())
    contents.python_names.push_back({std::string(one.name), static_cast<char>(one.kind),
                                     std::string(one.target), std::string(one.location.file),
                                     one.location.line});
  const PrivateFolder folder;
  write_index(contents, folder.path() / "derived.index");
  const SourceComparison comparison =
      compare_sources(shipped, Index::open(folder.path() / "derived.index"), {});
  CHECK(comparison.differences() == 2);
  CHECK(comparison.not_compared.empty());
  REQUIRE(names(comparison.removed) == std::vector<std::string>{"aten::relu"});
  CHECK(comparison.removed[0].schema == "relu(Tensor self) -> Tensor");
  REQUIRE(names(comparison.changed) == std::vector<std::string>{"aten::gelu"});
  const std::string formula = "gelu_backward(grad, self, approximate)";
  CHECK(lines(comparison.changed[0].changes) ==
        std::vector<std::string>{
            "kernel MkldnnCPU: at::native::mkldnn_gelu -> at::native::mkldnn_gelu_2",
            fmt::format("derivative self: {0} -> {0} * 2", formula)});
}

TEST_CASE("a comparison of sources is written in two formats", "[source_comparison]") {
  const SourceComparison comparison = Compared(old_version(), new_version()).run();
  const ComparedSource first{"old", "2.6.0", std::string(40, 'a'), "/indexes/old.index"};
  const ComparedSource second{"new", "2.7.0", "", "/indexes/new.index"};
  const std::string text = to_text(comparison, first, second, {});
  CHECK_THAT(text, Contains("- old: torch 2.6.0, commit aaaaaaaaaaaa\n+ new: torch 2.7.0\n"));
  CHECK_THAT(text, Contains("  + aten::fresh(Tensor self) -> Tensor"));
  CHECK_THAT(text, Contains("    kernel CPU: at::native::add → at::native::add_faster\n"));
  CHECK_THAT(text, Contains("1 added, 1 removed, 1 changed.\n"));
  const nlohmann::json json = nlohmann::json::parse(to_json(comparison, first, second));
  CHECK(json["schema"] == "optrace.source_comparison/1");
  CHECK(json["second"]["git_version"].is_null());
  CHECK(json["ops"]["added"][0]["op"] == "aten::fresh");
  CHECK(json["ops"]["changed"][0]["changes"][0]["kind"] == "schema");
  CHECK(json["fallbacks"][0]["after"] == "at::conj2");
  const SourceComparison same = Compared(old_version(), old_version()).run();
  CHECK_THAT(to_text(same, first, second, {}), Contains("No difference.\n"));
}
