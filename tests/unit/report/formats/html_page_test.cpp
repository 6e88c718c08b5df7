// The data of the interactive page: docs/html-page.md.

#include <array>
#include <cstddef>
#include <fstream>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <sys/stat.h>
#include <zlib.h>

#include "platform/files/private_folder.h"
#include "present/compressed_text.h"
#include "report/compare/compare.h"
#include "report/compare/formats/comparison_page.h"
#include "report/formats/html/page_excerpts.h"
#include "report/formats/html/source_copies.h"
#include "tests/unit/report/frames.h"
#include "tests/unit/report/written_report.h"

using Catch::Contains;
using Json = nlohmann::json;
using namespace optrace;
using namespace optrace::test;

namespace {

constexpr std::string_view kDigits =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

std::string from_base64(std::string_view text) {
  std::string bytes;
  unsigned group = 0;
  int bits = 0;
  for (const char c : text) {
    if (c == '=') break;
    group = group << 6U | static_cast<unsigned>(kDigits.find(c));
    bits += 6;
    if (bits < 8) continue;
    bits -= 8;
    bytes += static_cast<char>(group >> static_cast<unsigned>(bits) & 0xffU);
  }
  return bytes;
}

std::string unpacked(std::string_view base64) {
  std::string packed = from_base64(base64);
  z_stream stream{};
  REQUIRE(inflateInit2(&stream, 15 + 16) == Z_OK);
  stream.next_in = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_in = static_cast<uInt>(packed.size());
  std::string text;
  std::array<char, 4096> piece{};
  int result = Z_OK;
  while (result == Z_OK) {
    stream.next_out = reinterpret_cast<Bytef*>(piece.data());
    stream.avail_out = piece.size();
    result = inflate(&stream, Z_NO_FLUSH);
    text.append(piece.data(), piece.size() - stream.avail_out);
  }
  inflateEnd(&stream);
  REQUIRE(result == Z_STREAM_END);
  return text;
}

Json data_of(const std::string& page) {
  constexpr std::string_view kBegin = "id=\"payload\">";
  const std::size_t begin = page.find(kBegin);
  REQUIRE(begin != std::string::npos);
  const std::size_t at = begin + kBegin.size();
  return Json::parse(unpacked(std::string_view(page).substr(at, page.find('<', at) - at)));
}

std::size_t count_of(const std::string& text, std::string_view part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++count;
  return count;
}

Frame python(const std::string& file, std::uint32_t line, std::uint32_t call_line) {
  Frame made = timed_frame(Layer::python, "__main__.work", 100);
  made.source = FrameSource{file, line, {}, ""};
  if (call_line != 0) made.source.edit().call_line = call_line;
  return made;
}

/// main() in `file` -> aten::add -> a kernel on thread 8, taken by one rank.
Report sample(const std::string& file) {
  Frame kernel = timed_frame(Layer::kernel, "at::native::add", 10);
  kernel.symbol = std::string("_ZN2at6native3addEv");
  kernel.thread = 8;
  kernel.detail.edit().processes = {.by_rank = true, .processes = {1}, .calls = {}};
  Frame op = timed_frame(Layer::dispatcher, "at::_ops::add_Tensor::call", 30);
  op.op = "aten::add.Tensor";
  dispatch_of(op).choice.dispatch_key = "CPU";
  op.source = FrameSource{"", 0, 12, ""};
  op.children.push_back(std::move(kernel));
  Frame main = python(file, 2, 0);
  main.children.push_back(std::move(op));
  Report report;
  report.roots.push_back(std::move(main));
  return report;
}

std::string text_of(const Json& data, const char* column, std::size_t row) {
  const Json& values = data["frames"][column];
  return data["strings"][values.empty() ? 0 : values[row].get<std::size_t>()];
}

struct CountingSink : StringSink {
  void write(std::string_view text) override {
    StringSink::write(text);
    ++pieces;
  }
  std::size_t pieces = 0;
};

std::string page_of_comparison(const Report& first, const Report& second,
                               const ComparisonLabels& labels) {
  return written([&](OutputSink& sink) {
    to_html_page(first, second, compare(first, second), labels, {}, {}, sink);
  });
}

}  // namespace

TEST_CASE("text is compressed and encoded in pieces", "[page]") {
  std::mt19937 random(17);
  for (const std::size_t size : {0U, 1U, 2U, 3U, 100'000U, 700'001U}) {
    std::string text;
    for (std::size_t i = 0; i < size; ++i) text += static_cast<char>('a' + random() % 26);
    CountingSink sink;
    CompressedText out(sink);
    for (std::size_t at = 0; at < text.size(); at += 777) out.write(text.substr(at, 777));
    out.finish();
    const std::string encoded = sink.take();
    CHECK(unpacked(encoded) == text);
    CHECK(encoded.size() % 4 == 0);
    if (size > 500'000) CHECK(sink.pieces > 3);
  }
  CHECK(to_base64("").empty());
  CHECK(to_base64("f") == "Zg==");
  CHECK(to_base64("fo") == "Zm8=");
  CHECK(to_base64("foo") == "Zm9v");
  CHECK(to_base64("\xff\xfe\xfd") == "//79");
}

TEST_CASE("a page has the state of each line", "[page][lines]") {
  Report report = sample("train.py");
  FrameSource& source = report.roots[0].children[0].source.edit();
  source.file = "aten/src/ATen/native/Add.cpp";
  source.line = 9;
  source.approximate = LineInterval{8, 12};
  source.call_approximate = LineInterval();
  const Json frames = data_of(to_html_page(report, {}, {}))["frames"];
  CHECK(frames["approximate"] == Json({0, 3, 0}));
  CHECK(frames["line_first"] == Json({0, 8, 0}));
  CHECK(frames["line_last"] == Json({0, 12, 0}));
  CHECK(frames["call_line_first"] == Json::array());
  CHECK(frames["call_line_last"] == Json::array());
}

TEST_CASE("a page has the frames as columns", "[page]") {
  const Json data = data_of(to_html_page(sample("train.py"), {}, {}));
  CHECK(data["schema"] == "optrace.page/1");
  CHECK(data["mode"] == "report");
  CHECK(data["layers"][4] == "kernel");
  const Json& frames = data["frames"];
  CHECK(frames["up"] == Json({0, 1, 1}));
  CHECK(frames["layer"] == Json({0, 2, 4}));
  CHECK(frames["time"] == Json({100, 30, 10}));
  CHECK(frames["own_time"] == Json({70, 20, 10}));
  CHECK(frames["own_code"] == Json({1, 0, 0}));
  CHECK(frames["thread"] == Json({0, 0, 1}));
  CHECK(data["threads"] == Json({7, 8}));
  CHECK(data["thread_names"].size() == 2);
  CHECK(frames["call_line"] == Json({0, 12, 0}));
  CHECK(frames["excerpt"] == Json::array());
  CHECK(text_of(data, "label", 1) == "aten::add.Tensor");
  CHECK(text_of(data, "symbol", 2) == "_ZN2at6native3addEv");
  CHECK(text_of(data, "file", 0) == "train.py");
  CHECK_THAT(text_of(data, "choice", 1), Contains("CPU"));
  CHECK(text_of(data, "ranks", 2) == "1");
  CHECK(text_of(data, "ranks", 0).empty());
  const Json& detail = data["details"][frames["detail"][1].get<std::size_t>()];
  CHECK(detail == Json({{"step", "call"}, {"dispatch_key", "CPU"}, {"kernel", nullptr}}));
  CHECK(data["details"][frames["detail"][2].get<std::size_t>()].is_null());
  CHECK(data["summary"]["ops"][0]["op"] == "aten::add.Tensor");
}

TEST_CASE("an empty report is a page", "[page]") {
  const Json data = data_of(to_html_page(Report(), {}, {}));
  CHECK(data["frames"]["up"].empty());
  CHECK(data["strings"] == Json({""}));
}

TEST_CASE("no text of a report is markup", "[page]") {
  const std::string plain = to_html_page(sample("train.py"), {}, {});
  const std::string evil = "</script><script>alert(1)</script><!--\x1b[2J\xe2\x80\xae\xff";
  Report report = sample(evil);
  report.device = evil;
  report.torch.version = evil;
  report.recording.call = evil;
  report.recording.warnings = {evil};
  Frame& frame = report.roots.front();
  frame.name = frame.library.emplace(frame.op.emplace(evil));
  const OpenValue nested{std::vector<NamedValue>{{evil, {evil}}}};
  LibraryCall& call = frame.detail.edit().calls.emplace_back();
  call.values = {{evil, {std::vector<OpenValue>{{evil}, nested}}}};
  const std::string page = to_html_page(report, {}, {});
  CHECK(count_of(page, "<script") == count_of(plain, "<script"));
  CHECK(count_of(page, "</script") == count_of(plain, "</script"));
  CHECK(page.find("alert(1)") == std::string::npos);
  const Json data = data_of(page);
  const std::string shown = "</script><script>alert(1)</script><!--\\x1b[2J\\u202e\\xff";
  CHECK(text_of(data, "library", 0) == shown);
  CHECK(data["header"][0][1] == shown);
  const Json& detail = data["details"][data["frames"]["detail"][0].get<std::size_t>()];
  CHECK(detail["calls"][0][shown] == Json({shown, {{shown, shown}}}));
}

TEST_CASE("links lead to GitHub only", "[page]") {
  for (const auto& [url, shown] :
       {std::pair{"https://github.com/pytorch/pytorch/blob/v2.6.0/a.py#L2",
                  "https://github.com/pytorch/pytorch/blob/v2.6.0/a.py"},
        {"https://github.com.example/#L2", ""},
        {"javascript:alert(1)#L2", ""}}) {
    Report report = sample("a.py");
    report.roots.front().source.edit().url = url;
    CHECK(text_of(data_of(to_html_page(report, {}, {})), "url", 0) == shown);
  }
}

TEST_CASE("a notebook gets the page in a sandboxed frame", "[page]") {
  const std::string frame = to_notebook_frame(sample("train.py"), {});
  CHECK_THAT(frame, Contains("sandbox=\"allow-scripts\""));
  constexpr std::string_view kBegin = "src=\"data:text/html;charset=utf-8,";
  REQUIRE(frame.find(kBegin) != std::string::npos);
  const std::string url = frame.substr(frame.find(kBegin) + kBegin.size());
  const std::size_t end = url.find('"');
  CHECK(url.substr(end) == "\"></iframe>");
  std::string page;
  for (std::size_t at = 0; at < end; ++at) {
    const bool escaped = url[at] == '%';
    page += escaped ? static_cast<char>(std::stoi(url.substr(at + 1, 2), nullptr, 16)) : url[at];
    at += escaped ? 2 : 0;
  }
  CHECK(page == to_html_page(sample("train.py"), {}, {}));
}

TEST_CASE("a page has the lines of source around a definition and a call", "[page]") {
  const PrivateFolder folder;
  const std::string file = (folder.path() / "train.py").string();
  std::ofstream out(file);
  for (int line = 1; line <= 30; ++line) out << "\tline " << line << "\r\n";
  out.close();
  PageOptions options;
  Json data = data_of(to_html_page(sample(file), options, {}));
  // Lines 1 to 5 are around the definition in line 2, 9 to 15 around the call in line 12.
  REQUIRE(data["excerpts"].size() == 2);
  CHECK(data["frames"]["excerpt"] == Json({1, 0, 0}));
  CHECK(data["frames"]["call_excerpt"] == Json({0, 2, 0}));
  CHECK(data["excerpts"][0]["first"] == 1);
  CHECK(data["excerpts"][0]["lines"].size() == 5);
  CHECK(data["excerpts"][1]["first"] == 9);
  CHECK(data["excerpts"][1]["lines"].size() == 7);
  CHECK(data["excerpts"][1]["lines"][3] == "\tline 12");
  options.sources.traced_before = std::filesystem::file_time_type::min();
  CHECK(data_of(to_html_page(sample(file), options, {}))["excerpts"].empty());
  options.sources.traced_before.reset();
  options.excerpts = false;
  CHECK(data_of(to_html_page(sample(file), options, {}))["excerpts"].empty());
}

TEST_CASE("only plain source files are read", "[page]") {
  const PrivateFolder folder;
  const auto write = [&](const char* name, std::string_view text) {
    std::ofstream(folder.path() / name) << text;
    return folder.path() / name;
  };
  CHECK(read_source_lines(write("a.py", "x\ny"))->size() == 2);
  CHECK(!read_source_lines(write("empty.py", "")));
  CHECK(!read_source_lines(write("secret.txt", "x")));
  CHECK(!read_source_lines(write("id_rsa", "x")));
  CHECK(!read_source_lines(write("large.cpp", std::string((4U << 20U) + 1, 'x'))));
  CHECK(!read_source_lines(folder.path() / "missing.py"));
  REQUIRE(mkfifo((folder.path() / "pipe.py").c_str(), 0600) == 0);
  CHECK(!read_source_lines(folder.path() / "pipe.py"));
}

TEST_CASE("a file of PyTorch is found in the wheel or in a source tree", "[page]") {
  const PrivateFolder folder;
  const std::filesystem::path torch = folder.path() / "site-packages/torch";
  const std::filesystem::path tree = folder.path() / "pytorch";
  for (const std::filesystem::path& file :
       {torch / "nn/conv.py", torch / "include/ATen/Tensor.h", tree / "aten/src/ATen/Tensor.cpp"}) {
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << "x\n";
  }
  SourceCopies copies = copies_in_wheel(torch);
  copies.push_back({"", tree});
  CHECK(find_copy(copies, "torch/nn/conv.py") == torch / "nn/conv.py");
  CHECK(find_copy(copies, "aten/src/ATen/Tensor.h") == torch / "include/ATen/Tensor.h");
  CHECK(find_copy(copies, "aten/src/ATen/Tensor.cpp") == tree / "aten/src/ATen/Tensor.cpp");
  CHECK(find_copy(copies, "aten/src/ATen/Other.cpp").empty());
  CHECK(find_copy(copies, "torch").empty());
}

TEST_CASE("excerpts of near lines are one, and lines after the end have none", "[page]") {
  const PrivateFolder folder;
  const std::string file = (folder.path() / "a.cpp").string();
  std::ofstream out(file);
  for (int line = 1; line <= 20; ++line)
    out << line << std::string(line == 6 ? 1000 : 0, 'x') << '\n';
  out.close();
  PageExcerpts excerpts;
  for (const std::uint32_t line : {6U, 13U, 20U, 21U, 4'000'000'000U}) excerpts.need(file, line);
  excerpts.read({});
  REQUIRE(excerpts.all().size() == 1);
  CHECK(excerpts.all()[0].first == 3);
  CHECK(excerpts.all()[0].lines.size() == 18);
  CHECK(excerpts.all()[0].lines[3].size() < 500);
  CHECK(excerpts.number_of(file, 20) == 1);
  CHECK(excerpts.number_of(file, 21) == 0);
  CHECK(excerpts.number_of(file, 2) == 0);
  CHECK(excerpts.number_of("other.cpp", 6) == 0);
}

TEST_CASE("the trees of a comparison are one", "[page]") {
  const Report first = sample("train.py");
  Report second = sample("train.py");
  Frame& op = second.roots.front().children.front();
  dispatch_of(op).choice.dispatch_key = "CUDA";
  op.children.front().calls = 1;
  op.children.push_back(timed_frame(Layer::kernel, "at::native::fill", 3));
  op.children.back().children.push_back(timed_frame(Layer::library, "cudaMemset", 2));
  second.roots.push_back(timed_frame(Layer::python, "__main__.more", 5));
  const Json data = data_of(page_of_comparison(first, second, {"a.trace", "b.trace"}));
  CHECK(data["mode"] == "compare");
  CHECK(data["frames"]["side"] == Json({0, 3, 0, 2, 2, 2}));
  CHECK(data["frames"]["up"] == Json({0, 1, 1, 2, 1, 0}));
  CHECK(data["frames"]["calls_b"] == Json({1, 1, 1, 1, 1, 1}));
  CHECK(text_of(data, "label", 3) == "at::native::fill");
  const Json& comparison = data["comparison"];
  CHECK(comparison["second"] == "b.trace");
  REQUIRE(comparison["changes"].size() == 3);
  CHECK(comparison["changes"][0]["what"] == "dispatch_key");
  CHECK(comparison["changes"][0]["row"] == 1);
  CHECK(comparison["changes"][1]["row"] == 3);
  CHECK(comparison["changes"][2]["row"] == 5);
}

TEST_CASE("a frame of the first report only stands above what it leads to", "[page]") {
  const auto report = [](bool between) {
    Report made;
    made.roots.push_back(timed_frame(Layer::python, "__main__.main", 3));
    std::vector<Frame>* above = &made.roots.front().children;
    if (between)
      above = &above->emplace_back(timed_frame(Layer::kernel, "at::native::middle", 2)).children;
    above->push_back(timed_frame(Layer::kernel, "at::native::inner", 1));
    return made;
  };
  for (const bool first_has_it : {true, false}) {
    const Report first = report(first_has_it);
    const Report second = report(!first_has_it);
    const Json data = data_of(page_of_comparison(first, second, {"a", "b"}));
    CHECK(data["frames"]["side"] == (first_has_it ? Json({0, 1, 0}) : Json({0, 2, 0})));
    CHECK(data["frames"]["up"] == (first_has_it ? Json({0, 1, 1}) : Json({0, 1, 2})));
  }
}
