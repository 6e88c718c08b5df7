#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <unordered_map>
#include <vector>

#include "platform/exported.h"
#include "report/model/report_reader.h"

namespace optrace {

/// Returns a frame's `detail` with its time as JSON text (report.schema.json); `null` if the frame
/// has neither.
OPTRACE_EXPORTED std::string detail_json(const Frame& frame);

/// Same, for a detail without a time.
std::string detail_json(const Detail& detail);

/// Writes the details of frames as JSON texts. Details that frames share are written once.
class DetailJson {
 public:
  /// Same as detail_json().
  std::string text_of(const Frame& frame);

 private:
  // The keys and values around those of the time, which stand in the order of the keys.
  struct Parts {
    std::string before, after;
  };
  const Parts& parts_of(const Detail& detail);

  std::unordered_map<const Detail*, Parts> parts_;
};

// Parts of a detail as JSON texts.

std::string arguments_json(const std::vector<Argument>& arguments);
std::string results_json(const std::vector<ResultOrList>& results);
std::string sizes_json(const Sizes& sizes);
std::string numbers_json(const std::vector<std::uint64_t>& numbers);
std::string value_json(const OpenValue& value);
/// Without the keys in `without`. Empty if there is no other one.
std::string call_json(const LibraryCall& call, std::initializer_list<const char*> without);
std::string launch_json(const Launch& launch, std::initializer_list<const char*> without);
std::string returned_json(const ReturnedValues& returned);

/// A key of a detail with its value: a text as it is, anything else as JSON.
struct DetailEntry {
  std::string key;
  std::string value;
};
/// Returns the keys of a frame's `detail`, with its time. A list of objects or lists has an entry
/// for each of them, of which the first has the key.
std::vector<DetailEntry> detail_entries(const Frame& frame);

// Parts of a report as JSON texts.

std::string device_json(const EmulatedDevice& device);
std::string steps_json(const RecordedSteps& steps);

}  // namespace optrace
