#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "tracer/trace/trace.h"
#include "tracer/trace/trace_format.h"

namespace optrace::trace_format {

constexpr const char* kRecordAgain =
    "Copy the file again if it was copied, or record a new trace with --trace FILE.";

/// Throws Error(usage): the trace can't be read.
[[noreturn]] void refuse_trace(const std::filesystem::path& path, const std::string& reason,
                               const char* remedy = kRecordAgain);

const char* name_of(SectionKind kind);

/// Reads the metadata of a trace from its section. Returns nothing if it is none; `problem` then
/// says what it is.
std::optional<TraceMeta> read_trace_meta(std::string_view text, std::string& problem);
std::string write_trace_meta(const TraceMeta& meta);

/// The most bytes of the two numbers before a thread's initial stack.
constexpr std::size_t kThreadHeadBytes = 20;

/// Reads a decompressed section into a trace that has the sections before it. `head_only` is true
/// if `bytes` has only those of a thread's head. Throws Error(usage) if the data is malformed.
void read_section(SectionKind kind, std::span<const std::byte> bytes, bool head_only,
                  const std::filesystem::path& path, Trace& trace);

/// Checks the indexes in paths after everything has been read. Throws Error(usage).
void check_paths(const Trace& trace, const std::filesystem::path& path);

/// Returns a section before its compression. `thread` is the index of the one that a section of
/// that kind is of.
std::string write_section(SectionKind kind, const Trace& trace, std::size_t thread = 0);

}  // namespace optrace::trace_format
