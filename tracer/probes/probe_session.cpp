#include "tracer/probes/probe_session.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <unordered_set>
#include <utility>

#include <fmt/core.h>

#include "platform/elf/branch_targets.h"
#include "platform/error.h"
#include "platform/files/cache_folders.h"
#include "platform/files/file_trust.h"
#include "platform/files/output_file.h"
#include "platform/files/private_folder.h"
#include "platform/files/whole_file.h"
#include "platform/process/interrupt.h"
#include "pytorch/functions/function_roles.h"
#include "pytorch/functions/probed_functions.h"
#include "pytorch/installed/wheel_libraries.h"
#include "target/interface/generated_library.h"
#include "tracer/probes/probe_selection.h"

namespace optrace {
namespace {}  // namespace

struct ProbeSession::State {
  /// The probes of one module, whatever paths lead to it.
  struct ModuleProbes {
    std::optional<BranchTargets> branch_targets;
    std::optional<std::string> cached_name;     ///< See find_cached_name().
    std::unordered_set<std::uint64_t> planned;  ///< Addresses as linked.
  };

  /// Returns the build-id, or the path for a module without one.
  static std::string key_of(const std::string& build_id, const std::string& path) {
    return build_id.empty() ? path : build_id;
  }
  ModuleProbes& probes_of(const ModuleSymbols& module) {
    return probes[key_of(module.build_id(), module.path().string())];
  }

  /// Returns the name of the module's files in the cache; empty if nothing may be cached.
  std::string find_cached_name(const ModuleSymbols& module) const;
  /// Returns the path of the module's cache file of this kind, which may not exist yet; empty if
  /// nothing may be cached.
  std::filesystem::path cached_file(const ModuleSymbols& module, std::string_view what);
  const BranchTargets& branch_targets_of(const ModuleSymbols& module);
  std::filesystem::path initial_plan(const ModuleSymbols& module);
  /// Adds the probes that record what the functions with probes return.
  void add_returns(const ModuleSymbols& module, std::vector<NamedAddress> functions,
                   ProbePlanner& planner) const;
  /// Returns a plan for a module that is not one of torch's or of the interpreter's; empty if it is
  /// not related to torch, or has a plan already.
  std::filesystem::path plan_of_extension(const ModuleSymbols& module);
  std::filesystem::path remember(ProbePlan plan, ModuleProbes& module);
  std::filesystem::path scratch_file(std::string_view what);
  const ProbePlan& plan_of(const PlacedProbes& probes) const;

  std::filesystem::path scratch;
  KnownResults results;
  ModuleStore store;
  std::map<std::string, ModuleProbes> probes;
  std::map<std::string, ProbePlan> plans;  ///< By path.
  std::vector<std::string> warnings;
  unsigned files_made = 0;
  const std::int64_t began = std::chrono::duration_cast<std::chrono::nanoseconds>(
                                 std::chrono::system_clock::now().time_since_epoch())
                                 .count();
};

std::filesystem::path ProbeSession::State::scratch_file(std::string_view what) {
  return scratch / fmt::format("{}-{}.plan", what, ++files_made);
}

std::filesystem::path ProbeSession::State::remember(ProbePlan plan, ModuleProbes& module) {
  module.planned.reserve(module.planned.size() + plan.probes().size());
  for (const plan::Probe& probe : plan.probes()) module.planned.insert(probe.address);
  const std::filesystem::path path = plan.path();
  plans.insert_or_assign(path.string(), std::move(plan));
  return path;
}

// The build-id is part of the file, and another file may contain the same one. So the names in the
// cache are hashes of the file's content, less the code for GPUs, on which no plan depends. Hashing
// takes a while and is done once for each state of the file.
std::string ProbeSession::State::find_cached_name(const ModuleSymbols& module) const {
  const std::filesystem::path& path = module.path();
  // Another user's files, and those in a container, must not affect later runs.
  if (store.looks_below()) return {};
  const std::optional<FileState> state = state_of(path);
  if (!state || !is_ours(*state)) return {};
  // The module was mapped after the session began: the file must not have changed since then.
  if (!is_settled(*state) || state->changed >= began) return {};
  const std::filesystem::path folder = cache_subfolder(cache_folders::kPlans);
  if (folder.empty()) return {};
  const std::filesystem::path known = folder / (text_of(*state) + ".content");
  constexpr std::size_t kDigits = 32;
  if (auto hash = read_file(known);
      hash && hash->size() == kDigits &&
      hash->find_first_not_of("0123456789abcdef") == std::string::npos)
    return *hash;
  auto hash = content_hash(path, module.gpu_code());
  if (!hash || state_of(path) != state) return {};
  try_write_file(known, *hash);
  return *hash;
}

std::filesystem::path ProbeSession::State::cached_file(const ModuleSymbols& module,
                                                       std::string_view what) {
  std::optional<std::string>& name = probes_of(module).cached_name;
  if (!name) name = find_cached_name(module);
  if (name->empty()) return {};
  const std::filesystem::path folder = cache_subfolder(cache_folders::kPlans);
  return folder.empty() ? folder : folder / fmt::format("{}{}", *name, what);
}

const BranchTargets& ProbeSession::State::branch_targets_of(const ModuleSymbols& module) {
  std::optional<BranchTargets>& branch_targets = probes_of(module).branch_targets;
  if (branch_targets) return *branch_targets;
  const std::filesystem::path path = cached_file(module, ".branch_targets");
  if (!path.empty()) {
    try {
      branch_targets = BranchTargets::from_bytes(MappedFile(path).bytes());
    } catch (const Error&) {
      branch_targets.reset();  // Not cached yet.
    }
  }
  if (!branch_targets) {
    branch_targets = BranchTargets::search(module);
    if (!path.empty() && !module.was_cut()) try_write_file(path, branch_targets->to_bytes());
  }
  return *branch_targets;
}

void ProbeSession::State::add_returns(const ModuleSymbols& module,
                                      std::vector<NamedAddress> functions,
                                      ProbePlanner& planner) const {
  if (!results.of) return;
  for (const ReturnSite& site :
       find_return_sites(module, std::move(functions), select_slots(module), results.of))
    planner.add_return(site);
}

std::filesystem::path ProbeSession::State::initial_plan(const ModuleSymbols& module) {
  ModuleProbes& known = probes_of(module);
  std::filesystem::path path =
      cached_file(module, fmt::format("-{}.{}{}.plan", kSelectionVersion, plan::kVersion,
                                      results.of ? "." + results.identity : ""));
  const bool keep = !path.empty();
  if (keep) {
    auto kept = ProbePlan::open(path);
    if (kept && kept->build_id() == module.build_id() &&
        (!module.build_id().empty() || kept->module_path() == module.path().string()))
      return remember(std::move(*kept), known);
  }
  ProbePlanner planner(module, branch_targets_of(module));
  std::vector<NamedAddress> functions = select_functions(module);
  for (const NamedAddress& function : functions) planner.add(function.address);
  add_returns(module, std::move(functions), planner);
  planner.set_fork_lock(fork_lock_of(module).value_or(0));
  planner.set_evaluation_loop(evaluation_loop_of(module));
  const std::string bytes = planner.bytes(module.path());
  if (!keep || module.was_cut() || !try_write_file(path, bytes)) {
    path = scratch_file("initial");
    write_file(path, bytes);
  }
  auto plan = ProbePlan::open(path);
  if (!plan) {
    throw Error(ExitStatus::failed, fmt::format("the probe plan {} was changed", path.string()),
                "Check the disk that contains it.");
  }
  return remember(std::move(*plan), known);
}

const ProbePlan& ProbeSession::State::plan_of(const PlacedProbes& recorded) const {
  const auto plan = plans.find(recorded.plan_path);
  if (plan == plans.end() || plan->second.probes().size() != recorded.count) {
    throw Error(ExitStatus::failed,
                fmt::format("the recording refers to a probe plan that was not made for it: {}",
                            recorded.plan_path),
                "Run the trace again.");
  }
  return plan->second;
}

ProbeSession::ProbeSession(std::filesystem::path scratch_folder, KnownResults results)
    : state_(std::make_unique<State>()) {
  state_->scratch = std::move(scratch_folder);
  state_->results = std::move(results);
}

ProbeSession::~ProbeSession() = default;

std::vector<std::filesystem::path> ProbeSession::initial_plans(
    const std::vector<std::filesystem::path>& modules) {
  std::vector<std::filesystem::path> plans;
  const auto add = [&](const std::filesystem::path& plan) {
    const auto made = state_->plans.find(plan.string());
    if (made != state_->plans.end() && !made->second.is_empty()) plans.push_back(plan);
  };
  std::set<std::string> done;
  std::vector<std::filesystem::path> beside;
  for (const std::filesystem::path& path : modules) {
    InterruptGuard::throw_if_interrupted();
    const ModuleSymbols& module = state_->store.open(path);
    if (!done.insert(State::key_of(module.build_id(), path.string())).second) continue;
    if (auto warning = stripped_warning(module); !warning.empty())
      state_->warnings.push_back(std::move(warning));
    add(state_->initial_plan(module));
    // Build now, while the target is still busy, the table that the first recording needs.
    module.function_count();
    for (const std::string_view name : module.needed())
      beside.push_back(module.path().parent_path() / name);
  }
  // A wheel's own libgomp lies beside libtorch and is loaded with it.
  for (const std::filesystem::path& path : beside) {
    if (!state_->store.has(path)) continue;
    InterruptGuard::throw_if_interrupted();
    const ModuleSymbols& module = state_->store.open(path);
    if (!done.insert(State::key_of(module.build_id(), path.string())).second) continue;
    add(state_->initial_plan(module));
  }
  return plans;
}

namespace {

/// Returns true if a function of an extension is its own, and does not come from a header.
bool is_of_extension(std::string_view symbol) {
  constexpr std::array<std::string_view, 9> kOfHeaders = {
      "St", "9__gnu_cxx", "3c10", "8pybind11", "2at", "5torch", "6caffe2", "3fmt", "S"};
  if (!symbol.starts_with("_Z")) return !symbol.starts_with('_');
  // Each model of AOTInductor defines this function of a header, with its own code.
  if (symbol.starts_with("_ZN5torch12aot_inductor16AOTInductorModel8run_impl")) return true;
  symbol.remove_prefix(2);
  symbol.remove_prefix(std::min(symbol.find_first_not_of("ZNKVrRTWhvL"), symbol.size()));
  return std::ranges::none_of(kOfHeaders, [&](auto start) { return symbol.starts_with(start); });
}

bool is_of_torch(const ModuleSymbols& module) {
  if (is_generated_library(module.path().string())) return true;
  return std::ranges::any_of(module.needed(), is_torch_library);
}

}  // namespace

std::filesystem::path ProbeSession::State::plan_of_extension(const ModuleSymbols& module) {
  if (!is_of_torch(module) || !probes_of(module).planned.empty()) return {};
  ProbePlanner planner(module, branch_targets_of(module));
  const bool of_torch = is_libtorch(module.path().filename().string());
  module.for_each_name([&](std::uint64_t address, std::string_view symbol) {
    if (is_probed(symbol) || (!of_torch && is_of_extension(symbol))) planner.add(address);
  });
  if (planner.probe_count() == 0) return {};
  const std::filesystem::path path = scratch_file("loaded");
  write_file(path, planner.bytes(module.path()));
  auto plan = ProbePlan::open(path);
  if (!plan) return {};
  return remember(std::move(*plan), probes_of(module));
}

std::filesystem::path ProbeSession::plan_for_loaded(const LoadedModule& loaded) {
  if (!loaded.path.starts_with('/') || is_own_library(loaded.path)) return {};
  const ModuleSymbols* const module = state_->store.find(loaded);
  return module == nullptr ? std::filesystem::path() : state_->plan_of_extension(*module);
}

std::filesystem::path ProbeSession::plan_for_library(const std::filesystem::path& library) {
  return state_->plan_of_extension(state_->store.open(library));
}

const ProbePlan& ProbeSession::plan_of(const PlacedProbes& probes) const {
  return state_->plan_of(probes);
}

ModuleStore& ProbeSession::modules() {
  return state_->store;
}

std::vector<std::string> ProbeSession::warnings() const {
  std::vector<std::string> all = state_->warnings;
  const auto more = state_->store.warnings();
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

}  // namespace optrace
