#include "report/details/known_results.h"

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "indexer/store/index_catalogue.h"
#include "indexer/store/index_store.h"
#include "indexer/store/result_type.h"
#include "indexer/store/source_link.h"
#include "platform/files/file_trust.h"
#include "pytorch/installed/installed_torch.h"
#include "pytorch/installed/torch_version.h"
#include "pytorch/symbols/symbol_key.h"
#include "pytorch/symbols/symbol_name.h"

namespace optrace {
namespace {

// Larger integers are often sizes and counts. They tell what was decided where the caller compares
// them, unless they only describe a tensor.
constexpr std::uint32_t kMaxIntegerSize = 4;
constexpr auto kAccessors = std::to_array<std::string_view>(
    {"dim", "dim_custom", "ensure_nonempty_dim", "ensure_nonempty_size", "ensure_nonempty_stride",
     "nbytes", "numel", "numel_custom", "size", "size_custom", "storage_offset", "stride"});

bool is_accessor(std::string_view symbol) {
  const std::string name = qualified_name(symbol);
  return std::ranges::count(kAccessors, unqualified_name(name)) != 0;
}

/// Returns true for functions of the bindings for Python, whose null pointers are exceptions: one
/// of their parameters is a `PyObject*`.
bool is_python_binding(std::string_view symbol) {
  return symbol.find("P7_object") != std::string_view::npos;
}

RecordedResult recorded_result(std::string_view symbol, const ResultType& type) {
  switch (type.form) {
    case ResultForm::pointer:
      if (is_python_binding(symbol)) return {};
      return {.bytes = type.size, .is_pointer = true, .if_tested = true};
    case ResultForm::signed_integer:
    case ResultForm::unsigned_integer:
      if (type.size <= kMaxIntegerSize) return {.bytes = type.size};
      if (is_accessor(symbol)) return {};
      return {.bytes = type.size, .is_pointer = false, .if_tested = true};
    case ResultForm::optional:
      return {.bytes = type.size + 1};  // The byte after the value says whether there is one.
    default:
      return {.bytes = type.size};
  }
}

KnownResults results_of(const std::string& version, const std::string& git_version) {
  std::optional<Index> found = find_index(version, git_version, nullptr);
  if (!found || found->torch_version() != without_local_version(version) ||
      !found->has_result_types())
    return {};
  const std::optional<FileState> state = state_of(found->path());
  if (!state) return {};
  return {.of = [index = std::make_shared<const Index>(std::move(*found))](
                    std::string_view symbol) -> RecordedResult {
            const auto type = index->result_type_of(canonical_symbol(symbol));
            return type ? recorded_result(symbol, *type) : RecordedResult{};
          },
          .identity = text_of(*state)};
}

}  // namespace

KnownResults known_results(const std::filesystem::path& python) {
  const std::optional<InstalledTorch> torch = find_torch(python);
  return torch ? results_of(torch->version, torch->git_version) : KnownResults{};
}

KnownResults known_results_of_torch(const std::filesystem::path& folder) {
  const std::optional<TorchVersion> torch = read_torch_version(folder);
  if (!torch || !torch->version) return {};
  return results_of(*torch->version, torch->git_version.value_or(std::string()));
}

}  // namespace optrace
