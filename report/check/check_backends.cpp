#include "report/check/check_backends.h"

#include <string_view>

#include "pytorch/functions/vendor_libraries.h"
#include "pytorch/libraries/backends.h"

namespace optrace {

bool is_work_of(const Frame& frame, std::string_view backend) {
  // The functions that choose a kind of attention have its name.
  if (frame.name.starts_with("sdp::")) return false;
  const bool computes = frame.layer == Layer::library && !is_library_bookkeeping(frame.name);
  const std::string_view library = computes ? frame.detail->library : std::string_view();
  return is_function_of(backend, frame.name, library);
}

}  // namespace optrace
