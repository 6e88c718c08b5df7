#include "src/command.h"

namespace optrace {

CLI::Validator one_of(const std::set<std::string>& choices) {
  return CLI::IsMember(choices).description("");
}

}  // namespace optrace
