#include "report/formats/html/html_page.h"

#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "indexer/store/index_catalogue.h"
#include "indexer/store/source_link.h"
#include "platform/text/printable_text.h"
#include "present/compressed_text.h"
#include "report/formats/html/html_page_parts.h"
#include "report/formats/html/page_json.h"
#include "report/formats/html/page_tables.h"
#include "report/model/json_fields.h"

namespace optrace {
namespace {

using Json = nlohmann::json;

/// Writes the page's data, an object, member by member.
class PayloadWriter {
 public:
  explicit PayloadWriter(OutputSink& sink) : out_(sink) {
    out_.write(R"({"schema":"optrace.page/1")");
  }

  void member(std::string_view key, const Json& value) {
    begin(key);
    out_.write(page_json(value));
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
  const bool exact = is_exact_source(*options.index, text_at(report.torch, "version"),
                                     text_at(report.torch, "git_version"));
  return page_op_facts(frames.rows, *options.index, exact);
}

/// Writes the members that each page has.
void write_common(const Report& report, PageFrames& frames, const PageOptions& options,
                  PayloadWriter& payload) {
  payload.member("header", page_header(report));
  payload.member("layers", layer_names());
  payload.member("processes", report.processes.is_array() ? report.processes : Json::array());
  payload.member("summary", page_summary(report));
  payload.member("op_facts", op_facts(report, frames, options));
  if (options.excerpts) {
    need_excerpts(frames);
    frames.excerpts.read(options.sources);
  }
  payload.frames(frames);
}

/// Appends bytes to a data URL. What base64 consists of stays.
class DataUrl : public OutputSink {
 public:
  explicit DataUrl(std::string& url) : url_(url) {}

  void write(std::string_view bytes) override {
    constexpr std::string_view kDigits = "0123456789ABCDEF";
    for (const char c : bytes) {
      const auto byte = static_cast<unsigned char>(c);
      const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                            (c >= '0' && c <= '9') || c == '+' || c == '/' || c == '=';
      if (is_plain)
        url_ += c;
      else
        url_.append({'%', kDigits[byte >> 4U], kDigits[byte & 15U]});
    }
  }

 private:
  std::string& url_;
};

/// Writes a page around what `write_payload` writes.
template <class WritePayload>
void write_page(OutputSink& sink, const WritePayload& write_payload) {
  sink.print(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
      "script-src 'sha256-{}'; style-src 'sha256-{}'; base-uri 'none'; form-action 'none'\">\n"
      "<meta name=\"viewport\" content=\"width=device-width\">\n<title>optrace</title>\n<style>",
      page_script_hash(), page_style_hash());
  sink.write(page_style());
  sink.write(
      "</style>\n</head>\n<body>\n<script type=\"application/octet-stream\" id=\"payload\">");
  write_payload();
  sink.write("</script>\n<script type=\"module\">");
  for (const std::string_view script : page_scripts()) sink.write(script);
  sink.write("</script>\n</body>\n</html>\n");
}

}  // namespace

PageOptions page_options_of(const Report& report) {
  PageOptions options;
  if (std::optional<Index> index =
          find_index(text_at(report.torch, "version"), text_at(report.torch, "git_version")))
    options.index = std::make_shared<const Index>(std::move(*index));
  if (const std::string torch = text_at(report.meta, "torch_folder"); torch.starts_with('/'))
    options.sources.copies = copies_in_wheel(torch);
  return options;
}

void to_html_page(const Report& report, const PageOptions& options, const FindingOptions& findings,
                  OutputSink& sink) {
  write_page(sink, [&] {
    PageFrames frames(report);
    frames.rows = page_rows(report);
    PayloadWriter payload(sink);
    payload.member("mode", "report");
    payload.member("findings", page_findings(report, frames.rows, findings));
    write_common(report, frames, options, payload);
    payload.finish();
  });
}

std::string to_notebook_frame(const Report& report, const PageOptions& options) {
  // In a frame with a srcdoc, links to fragments would lead to the notebook.
  std::string frame =
      "<iframe title=\"optrace\" sandbox=\"allow-scripts\" "
      "style=\"width:100%;height:640px;border:1px solid #8888\" "
      "src=\"data:text/html;charset=utf-8,";
  DataUrl url(frame);
  to_html_page(report, options, {}, url);
  return frame += "\"></iframe>";
}

void to_comparison_page(ComparedPage page, const PageOptions& options, OutputSink& sink) {
  write_page(sink, [&] {
    PageFrames frames(page.first);
    frames.rows = std::move(page.rows);
    PayloadWriter payload(sink);
    payload.member("mode", "compare");
    payload.member("findings", Json::array());
    payload.member("comparison", page.comparison);
    write_common(page.first, frames, options, payload);
    payload.finish();
  });
}

}  // namespace optrace
