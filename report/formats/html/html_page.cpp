#include "report/formats/html/html_page.h"

#include <optional>
#include <string_view>
#include <utility>

#include "indexer/store/index_catalogue.h"
#include "report/formats/html/html_page_parts.h"
#include "report/formats/html/page_payload.h"

namespace optrace {
namespace {

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
  if (std::optional<Index> index = find_index(report.torch.version, report.torch.git_version))
    options.index = std::make_shared<const Index>(std::move(*index));
  if (const std::string torch = report.recording.torch_folder; torch.starts_with('/'))
    options.sources.copies = copies_in_wheel(torch);
  return options;
}

void to_html_page(const Report& report, const PageOptions& options, const FindingOptions& findings,
                  OutputSink& sink) {
  write_page(sink, [&] { write_payload(report, options, findings, sink); });
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
  write_page(sink, [&] { write_payload(std::move(page), options, sink); });
}

}  // namespace optrace
