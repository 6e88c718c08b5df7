#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <zlib.h>

#include "platform/files/output_sink.h"

namespace optrace {

/// Compresses text with gzip as it is written, and passes on the base64 of the result, so that
/// neither is ever in memory as a whole.
class CompressedText {
 public:
  /// `sink` must outlive this object.
  explicit CompressedText(OutputSink& sink);
  ~CompressedText();
  CompressedText(const CompressedText&) = delete;
  CompressedText& operator=(const CompressedText&) = delete;

  void write(std::string_view text);

  /// Ends the gzip file. Nothing can be written afterwards.
  void finish();

 private:
  void compress(int flush);
  void pass_on();

  OutputSink& sink_;
  std::string pending_;      ///< Text that is not yet compressed.
  std::vector<char> piece_;  ///< Compressed bytes that are not yet passed on.
  z_stream stream_{};
};

/// Returns bytes as base64 (RFC 4648), with padding.
std::string to_base64(std::string_view bytes);

}  // namespace optrace
