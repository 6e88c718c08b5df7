#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <unordered_map>

namespace optrace {

/// Combines values into one 64-bit hash (XXH3). The length of each value counts: `ab`, `c` and `a`,
/// `bc` differ.
class Digest {
 public:
  Digest& add(std::string_view text);
  Digest& add(std::uint64_t number);
  std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0;
};

/// Hashes of file contents. Each file is read once in the object's lifetime.
class FileHashes {
 public:
  FileHashes() : since_(std::filesystem::file_time_type::clock::now()) {}

  /// Returns the XXH3 of the file's bytes. Returns 0, which is no file's hash, if the file can't be
  /// read or was modified after the object was made, since its content may differ from the content
  /// used.
  std::uint64_t of(const std::string& path);

  /// Declares that this program has just written the file and that its content is final.
  void trust(const std::string& path);

  /// Returns one hash of the name and content of a file, or of all files below a folder except
  /// compiled Python.
  std::uint64_t of_all(const std::filesystem::path& path);

 private:
  std::filesystem::file_time_type since_;
  std::unordered_map<std::string, std::uint64_t> known_;
};

}  // namespace optrace
