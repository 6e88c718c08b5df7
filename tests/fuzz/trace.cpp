// Trace files, their merging, and the reports that are made from them. An input consists of the
// sections' contents, each preceded by its size. They are compressed and given a correct checksum
// here, so that the fuzzer gets past the checksum.
#include "tracer/trace/trace.h"

#include <cstdlib>
#include <utility>

#include <xxhash.h>
#include <zstd.h>

#include "report/formats/formats.h"
#include "report/job/trace_merge.h"
#include "report/merge/timeline.h"
#include "report/tensors/tensors_output.h"
#include "tests/fuzz/fuzz_input.h"
#include "tracer/trace/trace_format.h"

using namespace optrace;

namespace {

std::string file_of(fuzz::Input input) {
  namespace format = trace_format;
  constexpr auto kThread = static_cast<std::uint32_t>(format::SectionKind::thread);
  std::string body;
  format::FileHeader header{};
  for (std::uint32_t position = 1; !input.empty() || position < kThread; ++position) {
    const std::string_view content = input.take(input.take<std::uint32_t>());
    std::string stored(ZSTD_compressBound(content.size()), '\0');
    stored.resize(ZSTD_compress(stored.data(), stored.size(), content.data(), content.size(), 1));
    const format::SectionHeader section{
        static_cast<format::SectionKind>(std::min(position, kThread)), 0, stored.size(),
        content.size()};
    body.append(reinterpret_cast<const char*>(&section), sizeof section);
    body += stored;
    ++header.section_count;
  }
  std::ranges::copy(format::kMagic, header.magic);
  header.version = format::kVersion;
  header.checksum = XXH3_64bits(body.data(), body.size());
  return std::string(reinterpret_cast<const char*>(&header), sizeof header) + body;
}

}  // namespace

OPTRACE_READER(trace) {
  const fuzz::InputFile file(file_of({data, size}));
  fuzz::refuses_or_reads([&] {
    const Trace trace = read_trace(file.path());
    for (const ReportFormat& format : report_formats()) {
      if (format.needs_timeline() && !has_timeline(trace)) continue;
      FormatOptions options;
      ReportTextOptions& text_options = options.text;
      text_options.all = text_options.times = text_options.why = text_options.tensors =
          format.name != "text";
      const std::string text =
          written([&](OutputSink& sink) { render(trace, nullptr, format, options, sink); });
      if (!format.is_binary) fuzz::use_text(text);
    }
    if (auto log = read_tensor_log(trace)) {
      TensorsAnswer answer;
      answer.log = std::move(*log);
      answer.histories = histories_of(answer.log, "");
      fuzz::use_text(to_text(answer, {}) + to_json(answer));
    }
    TraceMerge merge;
    merge.add(trace);
    const Trace merged = merge.take();
    TraceMerge again;
    again.add(merged);
    // Further merging has no effect, and the result can be read.
    if (again.take().paths.size() != merged.paths.size()) std::abort();
    fuzz::use_text(written(
        [&](OutputSink& sink) { render(merged, nullptr, report_format("json"), {}, sink); }));
  });
  return 0;
}
