#include "src/source_check.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "indexer/store/completeness.h"
#include "platform/error.h"
#include "platform/json_writer.h"
#include "platform/printable_text.h"
#include "report/model/source_link.h"
#include "report/model/symbol_name.h"
#include "src/command.h"
#include "src/command_output.h"
#include "src/index_choice.h"
#include "tracer/elf/module_symbols.h"

namespace optrace {
namespace {

struct CheckOptions {
  std::string python;
  std::string index;
  std::string format = "text";
  std::string output;
  double least = 0;  // Percent.
  bool all = false;
};

/// The libraries of a wheel with functions of PyTorch's own source. A CPU wheel has two of them.
constexpr auto kLibraries = std::to_array<std::string_view>(
    {"libtorch_cpu.so", "libtorch_cuda.so", "libtorch_cuda_linalg.so", "libtorch_python.so"});

constexpr std::size_t kShown = 5;  // Number of missing items shown without --all.

struct Checked {
  KernelCoverage kernels;
  std::vector<LibraryCoverage> libraries;

  bool reaches(double percent) const {
    return kernels.available().percent() >= percent &&
           std::all_of(libraries.begin(), libraries.end(), [&](const auto& library) {
             return library.functions().percent() >= percent;
           });
  }
};

Checked examine(const Index& index, const std::optional<InstalledTorch>& torch) {
  Checked checked{kernel_coverage(index), {}};
  if (!torch) return checked;
  for (const std::string_view name : kLibraries) {
    const std::filesystem::path path = torch->folder / "lib" / name;
    std::error_code ignored;
    if (!std::filesystem::exists(path, ignored)) continue;
    const ModuleSymbols library(path);
    if (library.stripped()) continue;
    LibraryCounter counter(index, std::string(name));
    library.for_each_name([&](std::uint64_t, std::string_view function) { counter.add(function); });
    checked.libraries.push_back(counter.take());
  }
  return checked;
}

// Rounds down, so that 100 % means all.
std::string percent(const Share& share) {
  return fmt::format("{}.{:02} %", static_cast<int>(share.percent()),
                     static_cast<int>(share.percent() * 100) % 100);
}

std::string row(std::string_view name, const Share& share) {
  return fmt::format("  {:<28}{:>9} of {:>7}   {:>9}\n", name, share.known, share.all,
                     percent(share));
}

template <typename Items, typename Describe>
void list(std::string& text, const Items& items, bool all, Describe describe) {
  std::size_t shown = 0;
  for (const auto& item : items) {
    if (!all && shown == kShown) {
      text += fmt::format("      and {} more (--all)\n", items.size() - shown);
      return;
    }
    text += fmt::format("      {}\n", printable(describe(item)));
    ++shown;
  }
}

std::string describe(const KernelCoverage::Missing& missing) {
  return fmt::format("{} {}: {}", missing.op, missing.key, missing.kernel);
}

std::string as_text(const IndexChoice& choice, const Checked& checked, bool all) {
  const Index& index = choice.index;
  std::string text = fmt::format("The index of torch {}, {}\n\n", printable(index.torch_version()),
                                 printable(index.path().string()));
  text += fmt::format("native_functions.yaml: kernels named for a dispatch key\n{}",
                      row("with their definition", checked.kernels.available()));
  text += fmt::format("  {:<28}{:>9}\n", "overload told by its wrapper",
                      checked.kernels.by_registration);
  list(text, checked.kernels.missing, all, describe);
  std::map<std::string_view, std::vector<KernelCoverage::Missing>> by_key;
  for (const auto& missing : checked.kernels.not_built) by_key[missing.key].push_back(missing);
  for (const auto& [key, missing] : by_key) {
    text += fmt::format("  {} more for {}: its sources are in no Linux x86-64 build\n",
                        missing.size(), printable(key));
    if (all) list(text, missing, all, describe);
  }
  for (const auto& library : checked.libraries) {
    text += fmt::format("\n{}: functions, instances of templates apart\n{}", library.library,
                        row("all", library.functions()));
    for (const auto& of : library.classes) {
      text += row(of.name, of.functions);
      if (of.implicit > 0)
        text += fmt::format("    {} of them made by the compiler, at their class\n", of.implicit);
      list(text, of.missing, all, [](const std::string& symbol) { return qualified_name(symbol); });
    }
    text += row("lambdas in them", library.lambdas.functions);
    if (all)
      list(text, library.lambdas.missing, all,
           [](const std::string& symbol) { return qualified_name(symbol); });
  }
  if (!choice.torch) text += "\nNo torch was found, so no wheel to hold the index against.\n";
  return text;
}

nlohmann::json as_json(const Share& share) {
  return {{"known", share.known}, {"all", share.all}, {"percent", share.percent()}};
}

nlohmann::json as_json(const std::vector<KernelCoverage::Missing>& missing) {
  nlohmann::json list = nlohmann::json::array();
  for (const auto& of : missing)
    list.push_back({{"op", of.op}, {"key", of.key}, {"kernel", of.kernel}});
  return list;
}

nlohmann::json as_json(const LibraryCoverage::Class& of) {
  return {{"name", of.name},
          {"functions", as_json(of.functions)},
          {"implicit", of.implicit},
          {"missing", of.missing}};
}

std::string as_json(const IndexChoice& choice, const Checked& checked) {
  nlohmann::json libraries = nlohmann::json::array();
  for (const auto& library : checked.libraries) {
    nlohmann::json classes = nlohmann::json::array();
    for (const auto& of : library.classes) classes.push_back(as_json(of));
    libraries.push_back({{"library", library.library},
                         {"functions", as_json(library.functions())},
                         {"classes", classes},
                         {"lambdas", as_json(library.lambdas)}});
  }
  const nlohmann::json report = {
      {"schema", "optrace.completeness/1"},
      {"torch", {{"version", choice.torch ? choice.torch->version : ""}}},
      {"source", {{"version", choice.index.torch_version()}, {"exact", choice.exact}}},
      {"kernels",
       {{"available", as_json(checked.kernels.available())},
        {"by_registration", checked.kernels.by_registration},
        {"not_built", as_json(checked.kernels.not_built)},
        {"missing", as_json(checked.kernels.missing)}}},
      {"libraries", libraries}};
  return write_json(report, 2) + "\n";
}

void check_source(const CheckOptions& options) {
  CommandOutput destination(options.output);
  IndexChoice choice = choose_index(options.python);
  if (!options.index.empty()) {
    choice.index = Index::open(options.index);
    choice.exact = choice.torch &&
                   is_exact_source(choice.index, choice.torch->version, choice.torch->git_version);
  }
  say_notices(choice);
  const Checked checked = examine(choice.index, choice.torch);
  const std::string text =
      options.format == "json" ? as_json(choice, checked) : as_text(choice, checked, options.all);
  destination.write(text);
  destination.commit();
  if (!checked.reaches(options.least)) {
    throw Error(
        ExitStatus::differs,
        fmt::format("the index knows less than the {} % that --least asks for", options.least),
        "What is missing is listed with --all; `optrace source add` makes the index again.");
  }
}

}  // namespace

void add_source_check(CLI::App& source) {
  const auto options = std::make_shared<CheckOptions>();
  CLI::App* const check =
      source.add_subcommand("check", "How complete an index is, held against its yaml and a wheel");
  check->footer(
      "Examples:\n"
      "  optrace source check                    the index for the torch at hand\n"
      "  optrace source check --least 99.5       for CI: exit status 1 if any share is below\n"
      "  optrace source check --index my.index --all");
  check->add_option("--python", options->python, "The Python whose torch to hold it against")
      ->type_name("PATH");
  check->add_option("--index", options->index, "This index file, not the one chosen for the torch")
      ->type_name("FILE");
  check->add_option("--least", options->least, "Exit status 1 where less than this is known")
      ->check(CLI::Range(0.0, 100.0))
      ->type_name("PERCENT");
  check->add_option("--format", options->format, "text, for people, or json")
      ->check(CLI::IsMember({"text", "json"}).description(""))
      ->type_name("FORMAT");
  add_output_file_option(*check, options->output);
  check->add_flag("--all", options->all, "List all that is missing");
  check->callback([options] { check_source(*options); });
}

}  // namespace optrace
