#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <unordered_map>

namespace optrace {

/// Adds things up to one number, XXH3 (64 bits). Each thing's length counts: `ab`, `c` is not
/// `a`, `bc`.
class Digest {
 public:
  Digest& add(std::string_view text);
  Digest& add(std::uint64_t number);
  std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0;
};

/// What files hold, as numbers: each is read once in the object's life.
class FileHashes {
 public:
  FileHashes() : since_(std::filesystem::file_time_type::clock::now()) {}

  /// XXH3 of the file's bytes. 0, which stands for no file's content, when it can't be read or was
  /// written after the object was made: what was read from it then may be something else.
  std::uint64_t of(const std::string& path);

  /// Says that this program has just written the file, so that its content is what it is from now
  /// on.
  void trust(const std::string& path);

  /// Names and contents of a file, or of all files below a folder but compiled Python, as one
  /// number.
  std::uint64_t of_all(const std::filesystem::path& path);

 private:
  std::filesystem::file_time_type since_;
  std::unordered_map<std::string, std::uint64_t> known_;
};

}  // namespace optrace
