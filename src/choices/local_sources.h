#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "report/model/report.h"
#include "report/output/file_links.h"
#include "src/choices/index_choice.h"

namespace optrace {

/// Finds the files that reports and answers name on this machine: in the wheel, and in the source
/// trees that were indexed here.
class LocalSources {
 public:
  /// `torch_folder` is site-packages/torch; empty if there is none. `version` is the PyTorch
  /// version of the source.
  LocalSources(std::filesystem::path torch_folder, std::string version)
      : torch_folder_(std::move(torch_folder)), version_(std::move(version)) {}
  explicit LocalSources(const IndexChoice& choice);
  explicit LocalSources(const Report& report);

  /// Returns the path of a file, which is absolute or relative to a source tree. A relative file
  /// that is not PyTorch's is searched for in the working folder. Empty if it is not there.
  std::filesystem::path find(const std::string& file) const;

 private:
  std::vector<std::filesystem::path> places_in_wheel(const std::string& file) const;
  const std::vector<std::filesystem::path>& trees() const;

  std::filesystem::path torch_folder_;
  std::string version_;
  mutable std::optional<std::vector<std::filesystem::path>> trees_;  // Read when first needed.
};

/// Returns the search in `sources`, for links.
FileLinks::Find find_in(LocalSources sources);

}  // namespace optrace
