#include "report/report.h"

#include <iterator>
#include <utility>

namespace optrace {

Frame::~Frame() {
  // Takes the tree apart from the top, so that no destructor meets children.
  while (!children.empty()) {
    Frame last = std::move(children.back());
    children.pop_back();
    children.insert(children.end(), std::make_move_iterator(last.children.begin()),
                    std::make_move_iterator(last.children.end()));
    last.children.clear();
  }
}

}  // namespace optrace
