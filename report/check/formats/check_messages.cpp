#include "report/check/formats/check_messages.h"

#include <algorithm>
#include <cstdint>

#include <fmt/core.h>

#include "present/line_text.h"
#include "present/readable_numbers.h"

namespace optrace {
namespace {

/// Returns true for a line of the program itself, not of torch.
bool is_user_line(const CheckStep& step) {
  return step.layer == Layer::python && !step.file.empty() && step.line != 0 &&
         !step.file.starts_with("torch/") && !step.file.starts_with('<');
}

}  // namespace

std::size_t count(const std::vector<CheckResult>& results, CheckResult::Status status) {
  std::size_t number = 0;
  for (const CheckResult& result : results) number += result.status == status ? 1 : 0;
  return number;
}

std::string sentence(const CheckResult& result) {
  std::string text = "found: " + result.found;
  if (!result.rule.because.empty()) text += fmt::format(" ({})", result.rule.because);
  if (!result.remedy.empty()) text += ". " + result.remedy;
  return text;
}

std::string place_of(const CheckStep& step) {
  return step.file.empty() ? "" : "  " + place_text(step.file, step.line, step.exact);
}

std::vector<const CheckStep*> shown_steps(const std::vector<CheckStep>& path) {
  constexpr std::size_t kMax = 12;
  const std::size_t end = path.size() > kMax ? path.size() - kMax : 0;
  std::vector<const CheckStep*> shown;
  std::size_t next = 0;  // The first step that is not yet decided.
  const auto show = [&](std::size_t step) {
    if (step < next || step >= path.size()) return;
    if (step > next) shown.push_back(nullptr);
    shown.push_back(&path[step]);
    next = step + 1;
  };
  const auto outermost = std::find_if(path.begin(), path.end(), is_user_line);
  const auto innermost = std::find_if(path.rbegin(), path.rend(), is_user_line);
  if (end > 0 && outermost != path.end()) {
    show(std::min(end, static_cast<std::size_t>(outermost - path.begin())));
    show(std::min(end, static_cast<std::size_t>(path.rend() - innermost) - 1));
  }
  for (std::size_t step = end; step < path.size(); ++step) show(step);
  return shown;
}

std::string call_path(const CheckResult& result) {
  std::string text;
  for (const CheckStep* const step : shown_steps(result.path))
    text += fmt::format("{}{}", text.empty() ? "" : " > ", step == nullptr ? "…" : step->name);
  return text;
}

std::vector<CheckPlace> annotated(const CheckResult& result) {
  if (!result.places.empty()) return result.places;
  const auto line = static_cast<std::uint32_t>(result.rule.line);
  return {{.function = {}, .file = result.rule.file, .line = line}};
}

std::string share_of(const CheckPlace& place, const CheckResult& result) {
  return result.places.size() < 2 ? ""
                                  : fmt::format(" ({} at this line)", counted(place.count, "time"));
}

std::vector<std::string> lines_of_places(const CheckResult& result, std::size_t limit) {
  std::vector<std::string> lines;
  if (result.places.size() < 2) return lines;
  for (const CheckPlace& place : result.places) {
    if (lines.size() == limit) {
      lines.push_back(fmt::format("and {} more lines", result.places.size() - limit));
      break;
    }
    lines.push_back(
        fmt::format("{}:{}  in {}  ×{}", place.file, place.line, place.function, place.count));
  }
  return lines;
}

}  // namespace optrace
