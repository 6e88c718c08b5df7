#include "src/choices/known_results.h"

#include <memory>
#include <optional>
#include <utility>

#include "indexer/store/index_catalogue.h"
#include "indexer/store/index_store.h"
#include "indexer/store/result_type.h"
#include "indexer/store/symbol_key.h"
#include "platform/file_trust.h"
#include "platform/installed_torch.h"
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

}  // namespace

KnownResults known_results(const std::filesystem::path& python) {
  const std::optional<InstalledTorch> torch = find_torch(python);
  if (!torch) return {};
  std::optional<Index> found = find_index(torch->version, torch->git_version, nullptr);
  if (!found || found->torch_version() != without_local_version(torch->version) ||
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

}  // namespace optrace
