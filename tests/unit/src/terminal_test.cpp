#include "src/terminal/terminal.h"

#include <catch2/catch.hpp>

using namespace optrace;

TEST_CASE("colours follow the choice, and the target where it leaves them open", "[terminal]") {
  OutputTarget terminal;
  terminal.terminal = true;
  const auto colour = [&](ColourChoice choice) {
    return style_for({.colour = choice}, terminal).colour;
  };
  CHECK(colour(ColourChoice::automatic));
  CHECK_FALSE(colour(ColourChoice::never));
  terminal.no_colour = true;
  CHECK_FALSE(colour(ColourChoice::automatic));
  CHECK(colour(ColourChoice::always));
}

TEST_CASE("links need colours and a terminal", "[terminal]") {
  OutputTarget target;
  CHECK(style_for({.colour = ColourChoice::always}, target).colour);
  CHECK_FALSE(style_for({.colour = ColourChoice::always}, target).links);
  CHECK_FALSE(style_for({.colour = ColourChoice::automatic}, target).colour);
  target.terminal = true;
  CHECK(style_for({.colour = ColourChoice::always}, target).links);
  CHECK_FALSE(style_for({.colour = ColourChoice::never}, target).links);
}
