#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "platform/files/private_folder.h"

namespace optrace {

// Libraries that were built for released torches before optrace was installed, so that nothing is
// compiled on the user's machine (setup/make-prebuilt.py). One fits a torch if it was built from
// optrace's present source, and if the torch has what it depends on. The torch's name and version
// don't count, so that other builds of a release, and releases with the same headers, have one,
// too.

// Each kind of library (BuildDescription::cache) has a folder, with a folder for each torch, whose
// file prebuilt.json describes its libraries. In a package, one compressed file of the kind's
// folder has the libraries, because those of different torches are much alike.

/// Functions of CUDA's libraries: by SONAME ("libcublas.so.12") and symbol version, "" for none.
using CudaFunctions = std::map<std::string, std::map<std::string, std::set<std::string>>>;

/// Prebuilt libraries, as prebuilt.json describes them.
struct Prebuilt {
  std::filesystem::path folder{};
  std::string source_key{};                      ///< source_key() of their description.
  std::vector<std::string> libraries{};          ///< File names, in load order.
  std::string libraries_hash{};                  ///< Over their contents, 32 hex digits.
  std::vector<std::filesystem::path> headers{};  ///< Relative to the torch's include folder.
  std::string headers_hash{};                    ///< HeaderHashes::of() these.
  std::vector<std::string> imports{};            ///< Symbols that the torch must export.
  std::string cuda{};  ///< The version of CUDA whose headers were read; empty if none were.
  /// The functions of CUDA's libraries that they replace or record.
  CudaFunctions functions{};
};

/// Returns a hash of the bytes (XXH3, 128 bits) as 32 hex digits.
std::string hash_of(std::string_view bytes);

/// Returns the folder with the prebuilt libraries of this kind (BuildDescription::cache).
std::filesystem::path prebuilt_folder(std::string_view kind);

/// Returns the prebuilt libraries in the folders in `folder`, sorted by name.
std::vector<Prebuilt> prebuilt_libraries(const std::filesystem::path& folder);

/// Copies the libraries (in load order) into the folder of their description, to which it adds
/// them, and writes that. All users may read the files. Throws like OutputFile.
void store_prebuilt(Prebuilt& prebuilt, const std::vector<std::filesystem::path>& libraries);

/// Moves all libraries below a kind's folder into one compressed file. Throws like OutputFile.
void pack_prebuilt(const std::filesystem::path& folder);

/// Prebuilt libraries that can be loaded.
struct PrebuiltFiles {
  std::vector<std::filesystem::path> libraries{};  ///< In load order; empty if they are damaged.
  /// Contains the libraries if there is no cache for what a package has compressed.
  std::shared_ptr<const PrivateFolder> folder{};
};

/// Returns the libraries, which the first call for a package decompresses into `cache`, a folder.
/// Without a cache (empty), each call decompresses them.
PrebuiltFiles files_of(const Prebuilt& prebuilt, const std::filesystem::path& cache);

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
