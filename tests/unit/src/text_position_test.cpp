#include "src/language_server/text_position.h"

#include <string>

#include <catch2/catch.hpp>

TEST_CASE("positions are converted between UTF-16 and UTF-8", "[text_position]") {
  const std::string line = "é😀x";
  CHECK(optrace::bytes_before(line, 0) == 0);
  CHECK(optrace::bytes_before(line, 1) == 2);
  CHECK(optrace::bytes_before(line, 2) == 2);  // Inside of a surrogate pair.
  CHECK(optrace::bytes_before(line, 3) == 6);
  CHECK(optrace::bytes_before(line, 99) == 7);
  CHECK(optrace::units_before(line, 6) == 3);
  CHECK(optrace::units_before(line, 99) == 4);
  CHECK(optrace::units_before("a\xf0", 2) == 3);
}
