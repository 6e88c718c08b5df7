#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace optrace {

// Libraries that were built for released torches before optrace was installed, so that nothing is
// compiled on the user's machine (setup/make-prebuilt.py). One fits a torch if it was built from
// optrace's present source, and if the torch has what it depends on. The torch's name and version
// don't count, so that other builds of a release, and releases with the same headers, have one,
// too.

/// A folder with prebuilt libraries, which its file prebuilt.json describes.
struct Prebuilt {
  std::filesystem::path folder{};
  std::string source_key{};                      ///< source_key() of their description.
  std::vector<std::string> libraries{};          ///< File names, in load order.
  std::vector<std::filesystem::path> headers{};  ///< Relative to the torch's include folder.
  std::string headers_hash{};                    ///< HeaderHashes::of() these.
};

/// Returns the folder with the prebuilt libraries of this kind (BuildDescription::cache).
std::filesystem::path prebuilt_folder(std::string_view kind);

/// Returns the prebuilt libraries in the folders in `folder`, sorted by name.
std::vector<Prebuilt> prebuilt_libraries(const std::filesystem::path& folder);

/// Writes the description of libraries into their folder. Throws like OutputFile.
void describe_prebuilt(const Prebuilt& prebuilt);

/// Hashes lists of headers of one torch. Reads each file once.
class HeaderHashes {
 public:
  /// `include` is site-packages/torch/include.
  explicit HeaderHashes(std::filesystem::path include) : include_(std::move(include)) {}

  /// Returns a hash over names and contents, 32 hex digits; empty if one can't be read.
  std::string of(const std::vector<std::filesystem::path>& headers);

 private:
  const std::string& of(const std::filesystem::path& header);

  std::filesystem::path include_;
  std::map<std::filesystem::path, std::string> known_;
};

}  // namespace optrace
