#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "indexer/store/index_store.h"
#include "lookup/calls/static_path.h"
#include "lookup/locate/source_indexes.h"
#include "pytorch/libraries/backend_name.h"

namespace optrace {

/// A function that decides: its result is a boolean, an enumeration or an optional of one of them.
/// Or a function that only calls one which returns a value with the backend in its name.
struct Predicate {
  std::string symbol;
  std::string name;         ///< `at::native::ConvParams::use_cudnn`
  std::string type;         ///< `bool`, `at::native::ConvBackend`; empty if it only calls others.
  SourceLocation location;  ///< Of the definition; without a file if unknown.
  std::uint32_t call_line = 0;                     ///< In the caller's file; 0 if unknown.
  std::optional<LineInterval> call_approximate{};  ///< Of call_line.
  bool by_reference = false;        ///< The caller takes its address, to call it through a pointer.
  bool is_about = false;            ///< The backend is in its name, or in that of a value.
  std::vector<std::string> values;  ///< Of an enumeration: the values that name the backend.
  bool listed_before = false;       ///< Its own predicates are listed where it was called before.
  std::vector<Predicate> parts;     ///< The predicates that it calls, in the order of the calls.
};

/// A function between an op and a backend.
struct FunctionOnTheWay {
  std::string symbol;
  std::string name;
  SourceLocation location;
  std::vector<Predicate> predicates;  ///< That it calls, in the order of the calls.
  bool complete = true;               ///< False if the search for predicates ended at its limit.
  std::vector<PathStep>
      entries;  ///< The backend's ops and functions that it calls, with the lines.
};

/// What stands between an op and a backend on a device.
struct BackendRoutes {
  std::string device;                       ///< `cuda`
  std::string key;                          ///< `CUDA`
  std::vector<FunctionOnTheWay> functions;  ///< The nearest to the op first.
};

/// The predicates between an op and a backend. Text is valid as long as the index.
struct WhyNot {
  std::string op;  ///< `aten::conv2d`
  std::string backend;
  std::vector<BackendRoutes> devices;  ///< Those on which the op can reach the backend.
};

/// Finds, on each of the devices (explain.h), the shortest call paths from the op to the backend,
/// and the predicates that their functions call: those with the backend in their name, those that
/// return a value with the backend in its name, and what these call. `all`: also other predicates.
WhyNot why_not(const SourceIndexes& index, std::string_view op, const BackendName& backend,
               const std::vector<std::string>& devices, bool all);

/// Returns the known backends that the op can reach on one of the devices.
std::vector<std::string_view> reachable_backends(const SourceIndexes& index, std::string_view op,
                                                 const std::vector<std::string>& devices);

}  // namespace optrace
