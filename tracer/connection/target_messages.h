#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace optrace {

/// The remedy for a target's answer that is not as expected.
inline constexpr const char* kReport =
    "Run the command again. If it fails again, report it with this output.";

/// Returns a target's text in displayable form: without its end if it is long, and unable to
/// control a terminal.
std::string displayable(std::string_view text, std::size_t limit = 2000);

/// A message of a target, which is not trusted. message_contents.h has the functions that read what
/// it says.
class TargetMessage {
 public:
  struct Content;  ///< message_contents_json.h has it.

  explicit TargetMessage(std::shared_ptr<Content> content) : content_(std::move(content)) {}

  /// Returns one of protocol::message, or whatever else the target sent.
  const std::string& kind() const;

  Content& content() const { return *content_; }

 private:
  std::shared_ptr<Content> content_;
};

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
  TargetMessage take();

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
