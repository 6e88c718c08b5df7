#include "report/output/tree.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "platform/child_process.h"
#include "report/model/call_detail.h"
#include "report/model/dispatch_detail.h"
#include "report/model/json_fields.h"
#include "report/model/layers.h"
#include "report/model/shortfalls.h"
#include "report/model/source_link.h"
#include "report/model/symbol_name.h"
#include "report/output/failures.h"

namespace optrace {
namespace {

// SGR codes in the order of Layer.
constexpr std::array<std::string_view, 8> kLayerColours = {"36", "35", "33",   "32",
                                                           "1",  "31", "1;31", "2"};
constexpr std::string_view kDim = "2";
constexpr std::string_view kBold = "1";
constexpr std::string_view kWarning = "33";

constexpr std::size_t kLayerColumns = 12;
// Limits of the aligned columns; longer texts run over them. Without limits, one long name would
// add as many spaces to every line.
constexpr std::size_t kMaxNameLength = 56;
constexpr std::size_t kMaxLocationLength = 120;
constexpr std::size_t kShortestName = 24;
constexpr std::size_t kShortestLocation = 20;
constexpr std::size_t kMaxForkDepth = 20;  // Forks below are not indented further.

// One line of the tree, in parts that are aligned with those of other lines.
struct Line {
  Layer layer = Layer::runtime;
  std::string branch;  // Line-drawing characters before the name.
  std::string name;
  std::string note;      // After the name: `call`, `AVX2`.
  std::string location;  // Location of the definition.
  std::string url;
  std::string call;      // `called at :549`
  std::string times;     // `×12`
  std::string why;       // Printed on a line of its own, below.
  std::string below;     // Line-drawing characters before `why`.
  bool divider = false;  // Not a frame: names the thread of the following frames.
};

std::string plural(std::uint64_t count, std::string_view one, std::string_view many) {
  return fmt::format("{} {}", count, count == 1 ? one : many);
}

// Shortens a location to `width` columns by leaving out folders in its middle:
// `torch/csrc/autograd/…/python_torch_functions_2.cpp:7`.
std::string shorten_location(const std::string& location, std::size_t width) {
  if (columns(location) <= width) return location;
  const std::size_t name = location.rfind('/');
  if (name == std::string::npos) return shorten_middle(location, width);
  std::string_view front = std::string_view(location).substr(0, name);
  const std::string_view back = std::string_view(location).substr(name);
  while (true) {
    const std::size_t slash = front.rfind('/');
    if (slash == std::string_view::npos) break;
    front = front.substr(0, slash);
    std::string shortened = fmt::format("{}/…{}", front, back);
    if (columns(shortened) <= width) return shortened;
  }
  std::string shortened = fmt::format("…{}", back);
  if (columns(shortened) > width) shortened = shorten_middle(shortened, width);
  return shortened;
}

std::string pad(std::string_view text, std::size_t width) {
  const std::size_t taken = columns(text);
  std::string padded(text);
  if (taken < width) padded.append(width - taken, ' ');
  return padded;
}

class TreeWriter {
 public:
  TreeWriter(const Report& report, const TreeOptions& options)
      : report_(report), options_(options) {}

  std::string write() {
    header();
    tree();
    failed();
    summary();
    next();
    return std::move(text_);
  }

 private:
  std::string paint(std::string_view text, std::string_view sgr) const {
    return options_.style.paint(text, sgr);
  }
  void line(std::string_view content) {
    text_ += content;
    text_ += '\n';
  }
  void field(std::string_view name, std::string_view content) {
    line(fmt::format("{}{}", paint(pad(name, kLayerColumns), kDim), content));
  }

  void header() {
    const std::string call = text_at(report_.meta, "call");
    const std::string op = text_at(report_.meta, "op");
    line(paint(printable(call.empty() ? op.empty() ? "optrace report" : op : call), kBold));
    std::string torch = printable(text_at(report_.torch, "version"));
    if (torch.empty()) torch = "of unknown version";
    const std::string git = printable(text_at(report_.torch, "git_version"));
    field("torch", fmt::format("{}{} on {}{}", torch,
                               git.empty() ? "" : fmt::format(" (git {})", git.substr(0, 8)),
                               report_.device, python()));
    inputs();
    processes();
    dry_run();
    field("source", source());
    for (const std::string& warning : warnings())
      field("warning", paint(printable(warning), kWarning));
    line("");
    line(
        paint("Each frame is called by the one above it; ├─ and └─ are calls of one frame.", kDim));
    line(paint("×N: called N times in total, and so are the frames below it that have no count.",
               kDim));
    line("");
  }

  std::string python() const {
    const std::string version = printable(text_at(report_.meta, "python"));
    return version.empty() ? "" : fmt::format(", Python {}", version);
  }

  void inputs() {
    if (!report_.meta.is_object() || !report_.meta.contains("inputs")) return;
    const nlohmann::json& inputs = report_.meta["inputs"];
    if (!inputs.is_array()) return;
    for (const nlohmann::json& input : inputs) {
      std::string shape;
      if (input.is_object() && input.contains("shape") && input["shape"].is_array()) {
        for (const nlohmann::json& size : input["shape"])
          shape += fmt::format("{}{}", shape.empty() ? "" : "×", printable(size.dump()));
        if (shape.empty()) shape = "scalar";
      }
      std::string dtype = printable(text_at(input, "dtype"));
      if (dtype.starts_with("torch.")) dtype.erase(0, 6);
      field(&input == &inputs.front() ? "input" : "",
            fmt::format("{}{}{} {}", printable(text_at(input, "name")),
                        text_at(input, "name").empty() ? "" : "  ", shape, dtype));
    }
  }

  void dry_run() {
    if (!report_.dry_run.is_object()) return;
    const std::uint64_t devices = count_at(report_.dry_run, "devices");
    field("dry run", fmt::format("no GPU was used: PyTorch's own CUDA code ran against an emulated "
                                 "{}{} ({}); values, times and the effects of kernels are unknown",
                                 devices > 1 ? fmt::format("{} × ", devices) : "",
                                 printable(text_at(report_.dry_run, "gpu_model")),
                                 printable(text_at(report_.dry_run, "arch"))));
  }

  // Prints the processes of a job, and the paths that only some of them took.
  void processes() {
    std::string ranks;
    std::string ids;
    for (const nlohmann::json& process : report_.processes) {
      const auto add = [&](std::string& all, const char* key) {
        const nlohmann::json name =
            process.is_object() ? process.value(key, nlohmann::json()) : nlohmann::json();
        if (name.is_number()) all += fmt::format("{}{}", all.empty() ? "" : ", ", name.dump());
      };
      add(ranks, "rank");
      add(ids, "id");
    }
    if (!ranks.empty())
      field("ranks", ranks);
    else if (!ids.empty())
      field("processes", ids);
    if (!report_.meta.is_object()) return;
    for (const nlohmann::json& difference :
         report_.meta.value("differences", nlohmann::json::array()))
      if (difference.is_string()) field("", printable(difference.get<std::string>()));
  }

  std::string source() const {
    if (report_.source_version.empty())
      return "no index of PyTorch's source: native frames have no lines (optrace source add DIR "
             "creates one)";
    const std::string version = printable(report_.source_version);
    if (report_.source_exact)
      return fmt::format("line numbers: PyTorch {}, the commit that was traced", version);
    return fmt::format(
        "line numbers of native frames: PyTorch {}, not the traced version; approximate, marked ~",
        version);
  }

  std::vector<std::string> warnings() const {
    std::vector<std::string> warnings;
    if (report_.meta.is_object() && report_.meta.contains("warnings") &&
        report_.meta["warnings"].is_array())
      for (const nlohmann::json& warning : report_.meta["warnings"])
        if (warning.is_string()) warnings.push_back(warning.get<std::string>());
    for (std::string& warning : shortfall_warnings(report_.shortfalls))
      warnings.push_back(std::move(warning));
    return warnings;
  }

  // Walks the frames without recursion: a tree may be as deep as the traced program's recursion.
  void tree() {
    std::vector<Line> lines;
    struct Pending {
      const Frame* frame;
      const Frame* parent;
      std::string branch;  // Printed before this frame's name.
      std::string below;   // Printed before the names of its children.
      std::size_t depth;
      std::size_t forks;
    };
    std::vector<Pending> pending;
    for (auto root = report_.roots.rbegin(); root != report_.roots.rend(); ++root)
      pending.push_back({&*root, nullptr, "", "", 1, 0});
    std::optional<std::uint64_t> thread;
    const bool name_threads =
        report_.roots.size() > 1 &&
        std::any_of(report_.roots.begin(), report_.roots.end(),
                    [&](const Frame& frame) { return frame.thread != report_.roots[0].thread; });
    while (!pending.empty()) {
      const Pending at = std::move(pending.back());
      pending.pop_back();
      const Frame& frame = *at.frame;
      if (name_threads && at.parent == nullptr && thread != frame.thread) {
        Line divider;
        divider.divider = true;
        divider.name = fmt::format("thread {}", frame.thread);
        lines.push_back(std::move(divider));
        thread = frame.thread;
      }
      lines.push_back(describe(frame, at.parent, at.branch));
      lines.back().below = at.below;
      count(frame, at.parent, at.depth);
      const bool fork = frame.children.size() > 1;
      const bool indent = fork && at.forks < kMaxForkDepth;
      for (std::size_t i = frame.children.size(); i-- > 0;) {
        const bool last = i + 1 == frame.children.size();
        Pending child{&frame.children[i], &frame, at.below, at.below, at.depth + 1, at.forks + 1};
        if (indent) {
          child.branch += last ? "└─ " : "├─ ";
          child.below += last ? "   " : "│  ";
        } else if (!fork) {
          child.forks = at.forks;
        }
        pending.push_back(std::move(child));
      }
    }
    print(lines);
  }

  Line describe(const Frame& frame, const Frame* parent, const std::string& branch) const {
    Line line;
    line.layer = frame.layer;
    line.branch = branch;
    const std::string step = text_at(frame.detail, "step");
    if (!step.empty()) {
      line.name = printable(frame.op.value_or(frame.name));
      line.note = step;
    } else if (frame.layer == Layer::python) {
      line.name = printable(python_name(frame.name));
    } else {
      line.name = printable(short_name(frame.name));
    }
    note(line, text_at(frame.detail, "python_name"));
    if (!text_at(frame.detail, "backward_of").empty()) note(line, "backward");
    if (const std::string capability = text_at(frame.detail, "cpu_capability");
        line.name.find(capability) == std::string::npos)
      note(line, capability);
    note(line, short_name(text_at(frame.detail, "implementation")));
    if (frame.detail.is_object() && frame.detail.contains("tail_call"))
      note(line, "by a tail call");
    if (const std::uint64_t threads = count_at(frame.detail, "threads");
        threads >
        (parent == nullptr ? 1 : std::max<std::uint64_t>(count_at(parent->detail, "threads"), 1)))
      note(line, fmt::format("by {} threads", threads));
    note(line, takers(frame, parent));
    if (frame.source) {
      const FrameSource& source = *frame.source;
      const bool exact = report_.source_exact || frame.layer == Layer::python;
      if (!source.file.empty())
        line.location =
            fmt::format("{}:{}{}", printable(source.file), exact ? "" : "~", source.line);
      line.url = source.url;
      const bool call_exact =
          report_.source_exact || (parent != nullptr && parent->layer == Layer::python);
      if (source.call_line)
        line.call = fmt::format("called at :{}{}{}", call_exact ? "" : "~", *source.call_line,
                                call_column(source, parent));
    }
    if (frame.calls != (parent == nullptr ? 1 : parent->calls))
      line.times = fmt::format("×{}", frame.calls);
    if (const std::string took = time_taken(frame); !took.empty())
      line.times += fmt::format("{}{}", line.times.empty() ? "" : "  ", took);
    if (options_.why && !step.empty()) line.why = printable(dispatch_note(frame.detail));
    if (step.empty()) line.why = printable(call_note(frame.detail));
    if (frame.detail.is_object() && frame.detail.contains("reads_device_memory"))
      note(line, report_.dry_run.is_null() ? "reads device memory" : "reads emulated values");
    return line;
  }

  // Returns the column of a call after a colon, if the parent makes another call in the same line
  // and the columns tell the calls apart. Otherwise returns an empty string.
  static std::string call_column(const FrameSource& source, const Frame* parent) {
    if (parent == nullptr || !source.call_range) return "";
    const bool shares_line = std::ranges::any_of(parent->children, [&](const Frame& other) {
      return other.source && other.source->call_line == source.call_line &&
             other.source->call_range && other.source->call_range != source.call_range;
    });
    return shares_line ? fmt::format(":{}", source.call_range->column) : "";
  }

  // Names the processes that took the path, if they are not those of the parent: `rank 1 only`.
  static std::string takers(const Frame& frame, const Frame* parent) {
    for (const auto& [key, one, several] :
         {std::array{"ranks", "rank", "ranks"}, {"processes", "process", "processes"}}) {
      if (!frame.detail.is_object() || !frame.detail.contains(key)) continue;
      const nlohmann::json& names = frame.detail[key];
      if (parent != nullptr && parent->detail.is_object() &&
          parent->detail.value(key, nlohmann::json()) == names)
        return {};
      std::string text;
      for (const nlohmann::json& name : names)
        text += fmt::format("{}{}", text.empty() ? "" : ", ", name.dump());
      return fmt::format("{} {} only", names.size() == 1 ? one : several, text);
    }
    return {};
  }

  // Returns `12 µs`, or `1.2 ms (3 to 40 µs)` for several calls.
  static std::string time_taken(const Frame& frame) {
    if (!frame.detail.is_object() || !frame.detail.contains("time")) return {};
    const nlohmann::json& time = frame.detail["time"];
    const std::uint64_t total = count_at(time, "total");
    if (total == 0) return {};
    if (frame.calls < 2) return readable_time(total);
    return fmt::format("{} ({} to {})", readable_time(total),
                       readable_time(count_at(time, "shortest")),
                       readable_time(count_at(time, "longest")));
  }

  static std::string readable_time(std::uint64_t nanoseconds) {
    constexpr std::array<std::pair<double, std::string_view>, 3> kUnits{
        {{1e9, "s"}, {1e6, "ms"}, {1e3, "µs"}}};
    for (const auto& [size, unit] : kUnits)
      if (static_cast<double>(nanoseconds) >= size)
        return fmt::format("{:.3g} {}", static_cast<double>(nanoseconds) / size, unit);
    return fmt::format("{} ns", nanoseconds);
  }

  static void note(Line& line, const std::string& more) {
    if (more.empty()) return;
    if (!line.note.empty()) line.note += ", ";
    line.note += printable(more);
  }

  // Returns `Conv2d.forward` for `torch.nn.modules.conv.Conv2d.forward`; the file shows the rest.
  static std::string python_name(const std::string& name) {
    std::size_t at = 0;
    for (std::size_t dot = name.find('.'); dot != std::string::npos; dot = name.find('.', at)) {
      const std::string_view rest = std::string_view(name).substr(dot + 1);
      // Modules are lower-case; a class ends the module's name.
      const bool more = rest.find('.') != std::string_view::npos;
      const bool at_class = name[at] >= 'A' && name[at] <= 'Z';
      if (at_class) break;
      if (!more && name[at] == '_' && at != 0 && name.compare(at, 2, "__") == 0) break;
      at = dot + 1;
    }
    return name.substr(at);
  }

  void count(const Frame& frame, const Frame* parent, std::size_t depth) {
    depth_ = std::max(depth_, depth);
    ++frames_;
    const std::string step = text_at(frame.detail, "step");
    if (step == "call") ops_ += frame.calls;
    const bool dispatched = parent != nullptr && !text_at(parent->detail, "step").empty();
    if (dispatched && frame.layer == Layer::kernel) kernels_ += frame.calls;
    const bool innermost =
        std::none_of(frame.children.begin(), frame.children.end(),
                     [](const Frame& child) { return child.layer == Layer::library; });
    if (frame.layer == Layer::library && innermost) {
      library_calls_ += frame.calls;
      const std::string library = text_at(frame.detail, "library");
      if (!library.empty()) libraries_.insert(library);
    }
  }

  // The columns in which the texts after the names start. If `shorten` is true, names and locations
  // are shortened to fit.
  struct Columns {
    std::size_t name = 0;
    std::size_t location = 0;
    bool shorten = false;
  };

  void print(const std::vector<Line>& lines) {
    Columns fit;
    std::size_t call = 0;
    for (const Line& it : lines) {
      if (!ends_with_name(it))
        fit.name =
            std::max(fit.name, columns(it.branch) + std::min(name_columns(it), kMaxNameLength));
      fit.location = std::max(fit.location, std::min(columns(it.location), kMaxLocationLength));
      const std::size_t times = it.times.empty() ? 0 : columns(it.times) + 2;
      call = std::max(call, columns(it.call) + times);
    }
    if (options_.width != 0) {
      fit.shorten = true;
      const std::size_t fixed = kLayerColumns + call + 4;
      const std::size_t room = options_.width > fixed ? options_.width - fixed : 0;
      // Shorten paths before names: a path's last part is the most informative one.
      if (fit.name + fit.location > room) {
        const std::size_t left = room > fit.name ? room - fit.name : 0;
        fit.location = std::min(fit.location, std::max({left, room * 2 / 5, kShortestLocation}));
        fit.name = std::min(fit.name,
                            std::max(room > fit.location ? room - fit.location : 0, kShortestName));
      }
    }
    for (const Line& it : lines) print(it, fit);
    line("");
  }

  // Returns true if nothing follows the name in this row, so that it may exceed its column.
  static bool ends_with_name(const Line& it) {
    return it.location.empty() && it.call.empty() && it.times.empty();
  }

  // Returns the columns available for a row's branch, name and note.
  std::size_t name_room(const Line& it, const Columns& fit) const {
    if (ends_with_name(it)) return std::max(options_.width, kLayerColumns) - kLayerColumns;
    return it.location.empty() ? fit.name + 2 + fit.location : fit.name;
  }

  static std::size_t name_columns(const Line& it) {
    return columns(it.name) + (it.note.empty() ? 0 : columns(it.note) + 2);
  }

  void print(const Line& it, const Columns& fit) {
    const std::string_view colour = kLayerColours[static_cast<std::size_t>(it.layer)];
    std::string row = it.divider ? std::string(kLayerColumns, ' ')
                                 : paint(pad(name_of(it.layer), kLayerColumns), colour);
    row += paint(it.branch, kDim);
    std::string name = it.name;
    std::string note = it.note;
    std::string location = it.location;
    if (fit.shorten) {
      const std::size_t branch = columns(it.branch);
      const std::size_t whole = name_room(it, fit);
      const std::size_t room = whole > branch + kShortestName ? whole - branch : kShortestName;
      // A note may take the columns that the name leaves, and at least a third.
      const std::size_t for_note =
          note.empty() ? 0
                       : std::min(columns(note) + 2,
                                  std::max(room / 3, room - std::min(room, columns(name))));
      name = shorten_middle(name, room - for_note);
      note = shorten_middle(note, for_note > 2 ? for_note - 2 : 0);
      location = shorten_location(location, fit.location);
    }
    row += paint(name, it.divider ? kDim : colour);
    if (!note.empty()) row += "  " + paint(note, kDim);
    std::size_t taken = columns(it.branch) + columns(name) + (note.empty() ? 0 : columns(note) + 2);
    const auto align = [&](std::size_t width) {
      row.append(taken < width ? width - taken : 0, ' ');
      row += "  ";
    };
    if (!location.empty()) {
      align(fit.name);
      row += options_.style.link(location, it.url);
      taken = columns(location);
    } else if (!ends_with_name(it)) {
      const std::size_t behind_name = fit.name + 2;
      if (taken < behind_name) align(fit.name);
      taken = taken < behind_name ? 0 : taken - behind_name;
    }
    if (!it.call.empty() || !it.times.empty()) {
      align(fit.location);
      row += paint(it.call, kDim);
      if (!it.times.empty()) {
        if (!it.call.empty()) row += "  ";
        row += paint(it.times, kBold);
      }
    }
    line(row);
    if (!it.why.empty())
      line(fmt::format("{}{}{}", std::string(kLayerColumns, ' '), paint(it.below, kDim),
                       paint("↳ " + it.why, kDim)));
  }

  // Prints the calls that failed, each with the path to it.
  void failed() {
    constexpr std::size_t kMost = 5;
    constexpr std::size_t kMaxAbove = 30;  // Frames. The tree has all of them.
    const std::vector<Failure> found = failures(report_);
    for (std::size_t i = 0; i < found.size() && i < kMost; ++i) {
      const Failure& failure = found[i];
      std::string what = printable(short_name(failure.path.back()->name));
      for (const std::string& more : {failure.error, failure.why})
        if (!more.empty()) what += ": " + printable(more);
      if (failure.calls > 1) what += fmt::format("  ×{}", failure.calls);
      field(failure.refused ? "refused" : "failed", paint(what, kWarning));
      // Start at the innermost Python frame.
      std::size_t first = failure.path.size() - 1;
      while (first > 0 && failure.path[first]->layer != Layer::python) --first;
      first = std::max(first, failure.path.size() - std::min(failure.path.size(), kMaxAbove));
      for (std::size_t at = first; at + 1 < failure.path.size(); ++at)
        field("", paint("under ", kDim) + place_of(failure.path, at));
    }
    if (found.size() > kMost)
      field("", paint(fmt::format("and {} in other places", found.size() - kMost), kDim));
    if (!found.empty()) line("");
  }

  // Describes a frame with the line that makes the next call: `Linear.forward
  // torch/nn/modules/linear.py:125`.
  std::string place_of(const std::vector<const Frame*>& path, std::size_t at) const {
    const Frame& frame = *path[at];
    std::string text =
        printable(frame.layer == Layer::python                         ? python_name(frame.name)
                  : frame.op && !text_at(frame.detail, "step").empty() ? *frame.op
                                                                       : short_name(frame.name));
    if (!frame.source || frame.source->file.empty()) return text;
    const std::optional<FrameSource>& next = path[at + 1]->source;
    const std::uint32_t line_number =
        next && next->call_line ? *next->call_line : frame.source->line;
    const bool exact = report_.source_exact || frame.layer == Layer::python;
    text += fmt::format("  {}:{}{}", printable(frame.source->file), exact ? "" : "~", line_number);
    return text;
  }

  void summary() {
    std::string libraries;
    for (const std::string& library : libraries_)
      libraries += fmt::format("{}{}", libraries.empty() ? "" : ", ", printable(library));
    line(fmt::format("{}, {}, {}{}, {} deep{}", plural(ops_, "op dispatched", "ops dispatched"),
                     plural(kernels_, "kernel", "kernels"),
                     plural(library_calls_, "library call", "library calls"),
                     libraries.empty() ? "" : fmt::format(" ({})", libraries), depth_,
                     report_.threads > 1 ? fmt::format(", {} threads", report_.threads) : ""));
  }

  /// Returns true if a word from an untrusted trace is safe in a command that the user may paste.
  /// Of options, only those that neither run code nor name files are safe.
  static bool may_be_pasted(const std::string& word) {
    constexpr auto kOptions =
        std::to_array<std::string_view>({"--device", "--devices", "--dry-run", "--shape", "--dtype",
                                         "--probes", "--requires-grad", "--timeout"});
    const bool plain = !word.empty() && std::all_of(word.begin(), word.end(), [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
             std::string_view("._:-=").find(c) != std::string_view::npos;
    });
    const std::string_view option = std::string_view(word).substr(0, word.find('='));
    return plain && (word[0] != '-' || std::ranges::find(kOptions, option) != kOptions.end());
  }

  /// Returns the command that was traced, without --backward: `optrace conv2d --device cuda`. Empty
  /// if it must not be suggested.
  std::string same_command() const {
    const std::string op = text_at(report_.meta, "op");
    if (op.empty()) return {};
    std::vector<std::string> words{op};
    const nlohmann::json options = report_.meta.value("options", nlohmann::json::array());
    for (const nlohmann::json& option : options)
      words.push_back(option.is_string() ? option.get<std::string>() : "");
    std::string command = "optrace";
    for (const std::string& word : words) {
      if (!options_.own_trace && !may_be_pasted(word)) return {};
      command += " " + printable(shell_word(word));
    }
    return command;
  }

  void next() {
    const std::string op = same_command();
    if (op.empty()) return;
    const bool backward = report_.meta.value("backward", nlohmann::json()) == true;
    const std::string_view times = options_.times ? " --times" : "";
    const std::string as_tree = fmt::format("{}{}", options_.why ? " --why" : "", times);
    std::vector<std::pair<std::string, std::string_view>> hints;
    if (!backward)
      hints.emplace_back(fmt::format("{} --backward{}", op, as_tree), "with the backward pass");
    const std::string same = fmt::format("{}{}", op, backward ? " --backward" : "");
    if (!options_.all)
      hints.emplace_back(fmt::format("{}{} --all", same, as_tree),
                         "with wrapper templates and the interpreter's frames");
    hints.emplace_back(fmt::format("{}{} --format json -o FILE", same, times), "for programs");
    std::size_t width = 0;
    for (const auto& [command, what] : hints) width = std::max(width, command.size());
    for (const auto& [command, what] : hints)
      line(fmt::format("{}{}  {}",
                       paint(pad(&command == &hints[0].first ? "try" : "", kLayerColumns), kDim),
                       pad(command, width), paint(what, kDim)));
  }

  const Report& report_;
  const TreeOptions& options_;
  std::string text_;
  std::uint64_t ops_ = 0;
  std::uint64_t kernels_ = 0;
  std::uint64_t library_calls_ = 0;
  std::size_t frames_ = 0;
  std::size_t depth_ = 0;
  std::set<std::string> libraries_;
};

}  // namespace

std::string to_tree(const Report& report, const TreeOptions& options) {
  return TreeWriter(report, options).write();
}

}  // namespace optrace
