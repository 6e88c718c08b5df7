#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "indexer/store/source_link.h"
#include "platform/text/printable_text.h"
#include "present/compressed_text.h"
#include "report/formats/html/page_json.h"
#include "report/formats/html/page_payload.h"
#include "report/formats/html/page_tables_json.h"
#include "report/json/report_parts_json.h"

namespace optrace {
namespace {

using Json = nlohmann::json;

/// Writes the page's data, an object, member by member.
class PayloadWriter {
 public:
  explicit PayloadWriter(OutputSink& sink) : out_(sink) {
    out_.write(R"({"schema":"optrace.page/1")");
  }

  void member(std::string_view key, const Json& value) { text_member(key, page_json(value)); }

  void text_member(std::string_view key, std::string_view json) {
    begin(key);
    out_.write(json);
  }

  void excerpts(PageFrames& frames) {
    begin("excerpts");
    Json list = Json::array();
    for (const Excerpt& excerpt : frames.excerpts.all())
      list.push_back({{"file", frames.texts.number_of(excerpt.file)},
                      {"first", excerpt.first},
                      {"lines", excerpt.lines}});
    out_.write(page_json(list));
  }

  void frames(PageFrames& frames) {
    begin("frames");
    write_frames(frames, out_);
    Json names = Json::array();
    for (const std::uint64_t thread : frames.threads)
      names.push_back(fmt::format("thread {}", thread));
    member("threads", frames.threads);
    member("thread_names", names);
    excerpts(frames);
    texts("strings", frames.texts,
          [](const std::string& text) { return page_json(printable(text)); });
    texts("details", frames.details,
          [](const std::string& json) { return json.empty() ? "null" : json; });
  }

  void finish() {
    out_.write("}");
    out_.finish();
  }

 private:
  void begin(std::string_view key) { out_.write(fmt::format(",\"{}\":", key)); }

  template <class Written>
  void texts(std::string_view key, const PageTexts& texts, const Written& written) {
    begin(key);
    out_.write("[");
    for (const std::string* const text : texts.all()) {
      if (text != texts.all().front()) out_.write(",");
      out_.write(written(*text));
    }
    out_.write("]");
  }

  CompressedText out_;
};

Json layer_names() {
  Json names = Json::array();
  for (std::size_t layer = 0; layer < kLayers; ++layer)
    names.push_back(name_of(static_cast<Layer>(layer)));
  return names;
}

/// Returns the facts of the frames' ops, if there is an index.
Json op_facts(const Report& report, const PageFrames& frames, const PageOptions& options) {
  if (!options.index) return Json::object();
  const bool exact =
      is_exact_source(*options.index, report.torch.version, report.torch.git_version);
  return page_op_facts(frames.rows, *options.index, exact);
}

/// Writes the members that each page has.
void write_common(const Report& report, PageFrames& frames, const PageOptions& options,
                  PayloadWriter& payload) {
  payload.member("header", page_header(report));
  payload.member("layers", layer_names());
  payload.member("processes", to_json(report.processes));
  payload.member("summary", page_summary(report));
  payload.member("op_facts", op_facts(report, frames, options));
  if (options.excerpts) {
    need_excerpts(frames);
    frames.excerpts.read(options.sources);
  }
  payload.frames(frames);
}

}  // namespace

void write_payload(const Report& report, const PageOptions& options, const FindingOptions& findings,
                   OutputSink& sink) {
  PageFrames frames(report);
  frames.rows = page_rows(report);
  PayloadWriter payload(sink);
  payload.member("mode", "report");
  payload.member("findings", page_findings(report, frames.rows, findings));
  write_common(report, frames, options, payload);
  payload.finish();
}

void write_payload(ComparedPage page, const PageOptions& options, OutputSink& sink) {
  PageFrames frames(page.first);
  frames.rows = std::move(page.rows);
  PayloadWriter payload(sink);
  payload.member("mode", "compare");
  payload.member("findings", Json::array());
  payload.text_member("comparison", page.comparison);
  write_common(page.first, frames, options, payload);
  payload.finish();
}

}  // namespace optrace
