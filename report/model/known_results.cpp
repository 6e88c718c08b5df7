#include "report/model/known_results.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "indexer/store/index_catalogue.h"
#include "indexer/store/index_store.h"
#include "indexer/store/result_type.h"
#include "indexer/store/symbol_key.h"
#include "platform/file_trust.h"
#include "platform/installed_torch.h"
#include "platform/torch_version.h"
#include "report/model/source_link.h"

namespace optrace {
namespace {

// Larger integers are sizes and counts, and pointers rarely tell what was decided.
constexpr std::uint32_t kMaxIntegerSize = 4;

std::uint32_t recorded_bytes(const ResultType& type) {
  switch (type.form) {
    case ResultForm::pointer:
      return 0;
    case ResultForm::signed_integer:
    case ResultForm::unsigned_integer:
      return type.size <= kMaxIntegerSize ? type.size : 0;
    case ResultForm::optional:
      return type.size + 1;  // The byte after the value says whether there is one.
    default:
      return type.size;
  }
}

KnownResults results_of(const std::string& version, const std::string& git_version) {
  std::optional<Index> found = find_index(version, git_version, nullptr);
  if (!found || found->torch_version() != without_local_version(version) ||
      !found->has_result_types())
    return {};
  const std::optional<FileState> state = state_of(found->path());
  if (!state) return {};
  return {.bytes = [index = std::make_shared<const Index>(std::move(*found))](
                       std::string_view symbol) -> std::uint32_t {
            const auto type = index->result_type_of(canonical_symbol(symbol));
            return type ? recorded_bytes(*type) : 0;
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
