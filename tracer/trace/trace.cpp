#include "tracer/trace/trace.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include <fmt/core.h>
#include <xxhash.h>
#include <zstd.h>

#include "platform/error.h"
#include "platform/files/mapped_file.h"
#include "platform/files/output_file.h"
#include "tracer/trace/trace_format.h"
#include "tracer/trace/trace_sections.h"

namespace optrace {
namespace {

using namespace trace_format;

static_assert(std::endian::native == std::endian::little);

// The trace of a program with 3.3 MB of records takes 320 kB at level 3, 281 kB at level 6 (in 16
// ms) and 273 kB at level 9 (in 38 ms).
constexpr int kCompressionLevel = 6;

/// Counts the bytes of text that a report repeats for each path that refers to it.
std::uint64_t named_bytes(const Trace& trace) {
  const auto record = [&](std::uint32_t number) -> std::uint64_t {
    return number < trace.op_records.size() ? trace.op_records[number].size() : 0;
  };
  const auto python = [&](std::uint32_t number) -> std::uint64_t {
    if (number >= trace.python_functions.size()) return 0;
    const PythonFunction& function = trace.python_functions[number];
    return function.name.size() + function.file.size();
  };
  const auto native = [&](std::uint32_t number) -> std::uint64_t {
    if (number >= trace.functions.size()) return 0;
    const TraceFunction& function = trace.functions[number];
    const std::uint64_t library =
        function.module < trace.modules.size() ? trace.modules[function.module].path.size() : 0;
    return 2 * function.symbol.size() + function.source_file.size() + library;
  };
  std::uint64_t bytes = 0;
  for (const TracePath& path : trace.paths) {
    bytes += path.kind == PathKind::python                              ? python(path.what)
             : path.kind == PathKind::node || path.kind == PathKind::op ? record(path.what)
                                                                        : native(path.what);
    bytes += python(path.builtin);
    for (const OpCallCount& counted : path.ops)
      bytes += record(counted.record) + record(counted.results);
    for (const ActivityCount& counted : path.activities) bytes += record(counted.record);
  }
  return bytes;
}

/// Returns the kind of the section at `position` (from 0).
SectionKind kind_at(std::uint32_t position) {
  const auto last = static_cast<std::uint32_t>(SectionKind::thread);
  return static_cast<SectionKind>(std::min(position + 1, last));
}

/// Decompresses the first `most` of the `decoded_size` bytes in a section's frame. Returns
/// nullopt if `stored` is not a frame, or has another decoded size.
std::optional<std::vector<std::byte>> decompress(std::span<const std::byte> stored,
                                                 std::uint64_t decoded_size, std::size_t most) {
  std::vector<std::byte> decoded(most);
  if (most == decoded_size) {
    const std::size_t size =
        ZSTD_decompress(decoded.data(), decoded.size(), stored.data(), stored.size());
    if (ZSTD_isError(size) != 0 || size != decoded.size()) return std::nullopt;
    return decoded;
  }
  if (ZSTD_getFrameContentSize(stored.data(), stored.size()) != decoded_size) return std::nullopt;
  const std::unique_ptr<ZSTD_DStream, decltype(&ZSTD_freeDStream)> stream(ZSTD_createDStream(),
                                                                          &ZSTD_freeDStream);
  ZSTD_inBuffer in{stored.data(), stored.size(), 0};
  ZSTD_outBuffer out{decoded.data(), decoded.size(), 0};
  while (out.pos < out.size) {
    const std::size_t before = in.pos + out.pos;
    const std::size_t left = ZSTD_decompressStream(stream.get(), &out, &in);
    if (ZSTD_isError(left) != 0 || in.pos + out.pos == before) return std::nullopt;
  }
  return decoded;
}

template <typename T>
T take(std::span<const std::byte>& bytes, const std::filesystem::path& path) {
  if (bytes.size() < sizeof(T)) refuse_trace(path, "it is truncated");
  T value;
  std::memcpy(&value, bytes.data(), sizeof(T));
  bytes = bytes.subspan(sizeof(T));
  return value;
}

/// Reads the header in front of the sections, and checks it. Returns their number.
std::uint32_t read_header(std::span<const std::byte>& bytes, const std::filesystem::path& path) {
  if (bytes.size() < sizeof kMagic || std::memcmp(bytes.data(), kMagic, sizeof kMagic) != 0) {
    refuse_trace(path, "it is not an optrace trace",
                 "Give a file written by `optrace OP --trace FILE`.");
  }
  const auto header = take<FileHeader>(bytes, path);
  if (header.version != kVersion) {
    refuse_trace(
        path,
        fmt::format("it has format version {}, and this optrace reads version {}", header.version,
                    kVersion),
        "Read it with the version of optrace that wrote it, or record the trace again with this "
        "one.");
  }
  if (XXH3_64bits(bytes.data(), bytes.size()) != header.checksum)
    refuse_trace(path, "it is truncated or corrupt (its checksum differs)");
  const auto single_sections = static_cast<std::uint32_t>(SectionKind::thread) - 1;
  if (header.section_count < single_sections || header.section_count > kMaxSections)
    refuse_trace(path, "it is corrupt: sections are missing");
  return header.section_count;
}

/// Compresses sections one after another into a file's body.
class BodyWriter {
 public:
  explicit BodyWriter(const std::filesystem::path& path) : path_(path) {}

  void add(SectionKind kind, std::string_view decoded) {
    decoded_bytes_ += decoded.size();
    if (decoded_bytes_ > kMaxDecodedBytes || ++section_count_ > kMaxSections) {
      throw Error(ExitStatus::failed,
                  fmt::format("the trace is too large for {}: it has more than {} MiB of records",
                              path_.string(), kMaxDecodedBytes >> 20),
                  "Trace a shorter run.");
    }
    const std::size_t start = body_.size();
    body_.resize(start + sizeof(SectionHeader) + ZSTD_compressBound(decoded.size()));
    const std::size_t stored = ZSTD_compress(body_.data() + start + sizeof(SectionHeader),
                                             body_.size() - start - sizeof(SectionHeader),
                                             decoded.data(), decoded.size(), kCompressionLevel);
    if (ZSTD_isError(stored) != 0) {
      throw Error(ExitStatus::failed,
                  fmt::format("compressing the trace failed: {}", ZSTD_getErrorName(stored)),
                  "Free some memory.");
    }
    last_ = {kind, 0, stored, decoded.size()};
    last_start_ = start;
    std::memcpy(body_.data() + start, &last_, sizeof last_);
    body_.resize(start + sizeof last_ + stored);
  }

  /// Pads the last section so that the file is large enough for a reader's limits (kPadding).
  void pad(std::uint64_t named_bytes) {
    const std::uint64_t least =
        std::max(kDecoded.least_file(decoded_bytes_), kNamed.least_file(named_bytes));
    if (least <= sizeof(FileHeader) + body_.size()) return;
    const auto size = static_cast<std::uint32_t>(
        std::min<std::uint64_t>(least, std::numeric_limits<std::uint32_t>::max()));
    const std::uint32_t frame[] = {kPadding, size};
    body_.append(reinterpret_cast<const char*>(frame), sizeof frame);
    body_.append(size, '\0');
    last_.stored_size += sizeof frame + size;
    std::memcpy(body_.data() + last_start_, &last_, sizeof last_);
  }

  std::uint32_t section_count() const { return section_count_; }
  std::string_view body() const { return body_; }

 private:
  const std::filesystem::path& path_;
  std::string body_;
  SectionHeader last_{};
  std::size_t last_start_ = 0;
  std::uint64_t decoded_bytes_ = 0;
  std::uint32_t section_count_ = 0;
};

}  // namespace

Trace read_trace(const std::filesystem::path& path, TraceParts parts) {
  Trace trace;
  read_trace(path, parts, trace);
  return trace;
}

void read_trace(const std::filesystem::path& path, TraceParts parts, Trace& trace) {
  const MappedFile file(path, MappedFile::Trust::none);  // The file may be rewritten meanwhile.
  std::span<const std::byte> bytes = file.bytes();
  const std::uint32_t section_count = read_header(bytes, path);
  trace.threads.clear();
  std::uint64_t decoded_bytes = 0;
  for (std::uint32_t position = 0; position < section_count; ++position) {
    const auto section = take<SectionHeader>(bytes, path);
    const SectionKind kind = kind_at(position);
    decoded_bytes += section.decoded_size;
    if (section.kind != kind || section.reserved != 0) {
      refuse_trace(path,
                   fmt::format("it is corrupt: section {} is of an unexpected kind", position));
    }
    if (section.stored_size > bytes.size() || section.decoded_size > kMaxDecodedBytes ||
        decoded_bytes > std::min(kMaxDecodedBytes, kDecoded.most(file.bytes().size())) ||
        (kind == SectionKind::meta && section.decoded_size > kMaxMetaBytes)) {
      refuse_trace(path, fmt::format("it is corrupt: section '{}' is too large", name_of(kind)));
    }
    const std::span<const std::byte> stored = bytes.first(section.stored_size);
    bytes = bytes.subspan(section.stored_size);
    const bool head_only = kind == SectionKind::thread && parts == TraceParts::without_events;
    const std::size_t most = head_only
                                 ? std::min<std::size_t>(section.decoded_size, kThreadHeadBytes)
                                 : section.decoded_size;
    const std::optional<std::vector<std::byte>> decoded =
        decompress(stored, section.decoded_size, most);
    if (!decoded)
      refuse_trace(path,
                   fmt::format("it is corrupt: section '{}' can't be decompressed", name_of(kind)));
    read_section(kind, *decoded, head_only, path, trace);
  }
  if (!bytes.empty()) refuse_trace(path, "it is corrupt: bytes follow its last section");
  check_paths(trace, path);
  if (named_bytes(trace) > kNamed.most(file.bytes().size()))
    refuse_trace(path, "it is corrupt: its paths repeat more text than a trace of its size has");
}

void write_trace(const Trace& trace, const std::filesystem::path& path) {
  BodyWriter writer(path);
  for (const auto kind :
       {SectionKind::meta, SectionKind::modules, SectionKind::functions,
        SectionKind::python_functions, SectionKind::paths, SectionKind::op_records})
    writer.add(kind, write_section(kind, trace));
  for (std::size_t i = 0; i < trace.threads.size(); ++i)
    writer.add(SectionKind::thread, write_section(SectionKind::thread, trace, i));
  writer.pad(named_bytes(trace));

  FileHeader header{};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.version = kVersion;
  header.section_count = writer.section_count();
  header.checksum = XXH3_64bits(writer.body().data(), writer.body().size());
  OutputFile file(path);
  file.write(std::as_bytes(std::span(&header, 1)));
  file.write(writer.body());
  file.commit();
}

}  // namespace optrace
