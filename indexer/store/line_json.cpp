#include "indexer/store/line_json.h"

namespace optrace {

void add_line(nlohmann::ordered_json& place, std::uint32_t line,
              const std::optional<LineInterval>& approximate, const IndexFit& fit) {
  const bool known = line != 0;
  place["line"] = known ? nlohmann::ordered_json(line) : nlohmann::ordered_json();
  place["exact"] =
      known ? nlohmann::ordered_json(fit.is_exact(approximate)) : nlohmann::ordered_json();
  // The bounds are lines of the index's torch.
  if (known && fit.of_torch && approximate && approximate->first != 0)
    place["interval"] = {approximate->first, approximate->last};
}

void add_fit(nlohmann::ordered_json& source, const IndexFit& fit) {
  source["made_from"] = made_from(fit.from_wheel);
  source["of_torch"] = fit.of_torch;
  source["exact"] = fit.exact;
}

}  // namespace optrace
