#include "present/compressed_text.h"

#include <cstddef>
#include <cstdint>

#include "platform/error.h"

namespace optrace {
namespace {

constexpr int kLevel = 4;             // Twice as fast as 6, for a twentieth more bytes.
constexpr int kGzipWindow = 15 + 16;  // The largest window, in a gzip file.
constexpr int kMemory = 8;            // zlib's default.
constexpr std::size_t kPending = std::size_t{1} << 16;
constexpr std::size_t kPiece = std::size_t{3} << 14;  // Base64 of whole groups has no padding.

}  // namespace

CompressedText::CompressedText(OutputSink& sink) : sink_(sink), piece_(kPiece) {
  if (deflateInit2(&stream_, kLevel, Z_DEFLATED, kGzipWindow, kMemory, Z_DEFAULT_STRATEGY) != Z_OK)
    throw Error(ExitStatus::failed, "there is no memory to compress the page",
                "Free some memory and run the command again.");
  pending_.reserve(kPending);
  stream_.next_out = reinterpret_cast<Bytef*>(piece_.data());
  stream_.avail_out = static_cast<uInt>(piece_.size());
}

CompressedText::~CompressedText() {
  deflateEnd(&stream_);
}

void CompressedText::write(std::string_view text) {
  while (!text.empty()) {
    const std::string_view part = text.substr(0, kPending - pending_.size());
    pending_ += part;
    text.remove_prefix(part.size());
    if (pending_.size() == kPending) compress(Z_NO_FLUSH);
  }
}

void CompressedText::finish() {
  compress(Z_FINISH);
  pass_on();
}

void CompressedText::compress(int flush) {
  stream_.next_in = reinterpret_cast<Bytef*>(pending_.data());
  stream_.avail_in = static_cast<uInt>(pending_.size());
  int result = Z_OK;
  do {
    result = deflate(&stream_, flush);
    if (stream_.avail_out == 0) pass_on();
  } while (flush == Z_FINISH ? result != Z_STREAM_END : stream_.avail_in != 0);
  pending_.clear();
}

void CompressedText::pass_on() {
  sink_.write(to_base64({piece_.data(), piece_.size() - stream_.avail_out}));
  stream_.next_out = reinterpret_cast<Bytef*>(piece_.data());
  stream_.avail_out = static_cast<uInt>(piece_.size());
}

std::string to_base64(std::string_view bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    std::uint32_t group = 0;
    for (std::size_t i = at; i < at + 3; ++i)
      group = group << 8U | (i < bytes.size() ? static_cast<unsigned char>(bytes[i]) : 0U);
    for (std::size_t i = 0; i < 4; ++i)
      text += at + i > bytes.size() ? '=' : kDigits[group >> (18 - 6 * i) & 63U];
  }
  return text;
}

}  // namespace optrace
