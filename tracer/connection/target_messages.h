#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

namespace optrace {

/// The remedy for a target's answer that is not as expected.
inline constexpr const char* kReport =
    "Run the command again. If it fails again, report it with this output.";

/// Returns a target's text in displayable form: without its end if it is long, and unable to
/// control a terminal.
std::string displayable(std::string_view text, std::size_t limit = 2000);

/// Returns the paths in a list of a target's message: none if it has no such list.
std::vector<std::filesystem::path> paths_in(const nlohmann::json& message, const char* key);

/// Splits the data from the target into messages: each line is a JSON object with a string
/// "message". The target is not trusted: the length of lines is limited, and any other line throws
/// Error(failed).
class TargetMessages {
 public:
  static constexpr std::size_t kMaxLineLength = 16 << 20;  ///< In bytes.

  /// Adds received bytes. Throws Error(failed) if a line exceeds kMaxLineLength.
  void append(std::string_view bytes);

  /// True if a complete message is available.
  bool ready() const { return end_ != std::string::npos; }

  /// Removes and returns the next message. Requires ready().
  nlohmann::json take();

  /// Returns how many bytes were searched, copied or moved so far. Each received byte counts at
  /// most three times, however the bytes are divided into lines and appends.
  std::size_t bytes_touched() const { return touched_; }

 private:
  void find_end(std::size_t from);

  std::string bytes_;
  std::size_t begin_ = 0;                // Start of the next line; what precedes it was taken.
  std::size_t end_ = std::string::npos;  // End of the next line, if it is complete.
  std::size_t touched_ = 0;
};

}  // namespace optrace
