#include "platform/error.h"

#include <system_error>
#include <utility>

#include <fmt/core.h>

namespace optrace {

Error::Error(ExitStatus status, const std::string& what_was_wrong, std::string remedy)
    : std::runtime_error(what_was_wrong), status_(status), remedy_(std::move(remedy)) {}

Error::~Error() = default;

std::string describe_errno(int error_number) {
  return fmt::format("{} (errno {})", std::generic_category().message(error_number), error_number);
}

}  // namespace optrace
