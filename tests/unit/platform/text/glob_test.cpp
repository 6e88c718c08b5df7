#include "platform/text/glob.h"

#include <random>
#include <string>

#include <catch2/catch.hpp>

using namespace optrace;

namespace {

/// The definition of `*`, without regard to time.
bool matches_by_definition(std::string_view text, std::string_view pattern) {
  if (pattern.empty()) return text.empty();
  if (pattern[0] != '*')
    return !text.empty() && text[0] == pattern[0] &&
           matches_by_definition(text.substr(1), pattern.substr(1));
  return matches_by_definition(text, pattern.substr(1)) ||
         (!text.empty() && matches_by_definition(text.substr(1), pattern));
}

}  // namespace

TEST_CASE("a pattern's * matches any characters", "[glob]") {
  CHECK(matches_glob("conv2d", "conv2d"));
  CHECK(matches_glob("conv2d", "conv*"));
  CHECK(matches_glob("conv2d", "*"));
  CHECK(matches_glob("_convolution_mode", "*conv*mode"));
  CHECK(matches_glob("aten/src/ATen/native/Convolution.cpp", "aten/*/Conv*.cpp"));
  CHECK_FALSE(matches_glob("conv2d", "conv"));
  CHECK_FALSE(matches_glob("conv2d", "*3d"));
  CHECK(matches_glob("", "**"));
  CHECK(matches_glob("", ""));
  CHECK_FALSE(matches_glob("a", ""));
}

TEST_CASE("all other characters of a pattern match themselves", "[glob]") {
  CHECK(matches_glob("at::Tensor::operator[]", "*operator[]"));
  CHECK(matches_glob("operator%", "operator%"));
  CHECK_FALSE(matches_glob("operator^", "operator%"));
  CHECK_FALSE(matches_glob("conv2d", "conv?d"));
  CHECK_FALSE(matches_glob("conv2d", "conv[0-9]d"));
  CHECK_FALSE(matches_glob("conv2d", "Conv2d"));
  CHECK_FALSE(matches_glob(std::string("a\0b", 3), "a"));
}

TEST_CASE("a pattern matches what its definition says", "[glob]") {
  std::mt19937 random(5);
  const auto word = [&](std::string_view letters) {
    std::string text;
    for (auto size = random() % 8; size > 0; --size) text += letters[random() % letters.size()];
    return text;
  };
  for (unsigned turn = 0; turn < 20000; ++turn) {
    const std::string text = word("ab"), pattern = word("ab*");
    INFO(text << " and " << pattern);
    CHECK(matches_glob(text, pattern) == matches_by_definition(text, pattern));
    CHECK(matches_name_glob(text, pattern) == matches_by_definition(text, pattern));
  }
}

TEST_CASE("a pattern of many wildcards takes no longer than its size asks for", "[glob]") {
  std::string pattern;
  for (int i = 0; i < 1000; ++i) pattern += "a*";
  CHECK_FALSE(matches_glob(std::string(10000, 'a'), pattern + "b"));
}

TEST_CASE("patterns of C++ names have two narrower wildcards", "[glob]") {
  CHECK(matches_name_glob("at::_ops::add::call", "at::_ops::%::call"));
  CHECK_FALSE(matches_name_glob("at::_ops::add::x::call", "at::_ops::%::call"));
  CHECK(matches_name_glob("abcabd", "*ab%d"));
  CHECK(matches_name_glob("", "*"));
  CHECK_FALSE(matches_name_glob("a", ""));
  CHECK(matches_name_glob("sgemm_", "%_"));
  CHECK_FALSE(matches_name_glob("at::add_", "%_"));
  CHECK(matches_name_glob("a::b::c_", "*::%_"));
  CHECK(matches_name_glob("SGEMM", "^"));
  CHECK_FALSE(matches_name_glob("SGEMMx", "^"));
  CHECK_FALSE(matches_name_glob("aSGEMM", "^"));
}
