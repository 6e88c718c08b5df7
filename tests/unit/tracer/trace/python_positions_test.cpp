#include "tracer/trace/python_positions.h"

#include <cstddef>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

using optrace::CodePosition;
using optrace::PythonPositions;

namespace {

struct Example {
  std::uint32_t minor_version;
  std::string table;  // Hex.
  // The output of that version's co_positions() or, before 3.11, dis.findlinestarts(): the first
  // offset of each position. Columns are counted from 1.
  std::vector<std::pair<std::uint32_t, CodePosition>> expected;
};

// The tables that CPython 3.9.18, 3.10.13, 3.11.7 and 3.13.0 generated for the same function.
const std::vector<Example>& examples() {
  static const std::vector<Example> all = {
      {9,
       "0001020102ff040202010a0116021201",
       {{0, {2, 0, 0, 0}},
        {2, {3, 0, 0, 0}},
        {4, {2, 0, 0, 0}},
        {8, {4, 0, 0, 0}},
        {10, {5, 0, 0, 0}},
        {20, {6, 0, 0, 0}},
        {42, {8, 0, 0, 0}},
        {60, {9, 0, 0, 0}}}},
      {10,
       "0201020104ff02020a01160112020801",
       {{0, {2, 0, 0, 0}},
        {2, {3, 0, 0, 0}},
        {4, {2, 0, 0, 0}},
        {8, {4, 0, 0, 0}},
        {10, {5, 0, 0, 0}},
        {20, {6, 0, 0, 0}},
        {42, {8, 0, 0, 0}},
        {60, {9, 0, 0, 0}}}},
      {11,
       "8000d8090ad8090af103010a0b8041f00402051dd80d0e884288018801f8dd0b15d0041cd0041cd0041c9831907"
       "190719071d0041cf8f8f8f00400204702f00000204702f500002d4102f0000044024502f100002d4502f0000020"
       "4702f10000204702f40000204702d0041cd80b0c88518c34804b",
       {{0, {1, 1, 1, 1}},     {2, {2, 10, 2, 11}},   {4, {3, 10, 3, 11}},    {6, {2, 10, 3, 11}},
        {10, {2, 5, 2, 6}},    {12, {4, 5, 6, 29}},   {14, {5, 14, 5, 15}},   {16, {5, 13, 5, 15}},
        {18, {5, 9, 5, 10}},   {22, {0, 0, 0, 0}},    {24, {6, 12, 6, 22}},   {36, {6, 5, 6, 29}},
        {42, {6, 28, 6, 29}},  {44, {6, 24, 6, 25}},  {50, {6, 5, 6, 29}},    {52, {0, 0, 0, 0}},
        {58, {8, 32, 8, 135}}, {62, {8, 45, 8, 129}}, {74, {8, 132, 8, 133}}, {76, {8, 45, 8, 133}},
        {80, {8, 32, 8, 135}}, {96, {8, 5, 8, 29}},   {98, {9, 12, 9, 13}},   {100, {9, 14, 9, 15}},
        {102, {9, 12, 9, 16}}, {112, {9, 5, 9, 16}}}},
      {13,
       "8000d8090ad8090af103010a0b8041f00402051dd80d0e88428801f406002d4102f0000044024502f200002d450"
       "2f30000204702f100002d4502a061a201f100002d4502d0041cf00000204702d80b0c88518934804bf8f407000c"
       "16d3041c98319271d0041cfcf20400204702",
       {{0, {1, 1, 1, 1}},     {2, {2, 10, 2, 11}},   {4, {3, 10, 3, 11}},    {6, {2, 10, 3, 11}},
        {10, {2, 5, 2, 6}},    {12, {4, 5, 6, 29}},   {14, {5, 14, 5, 15}},   {16, {5, 13, 5, 15}},
        {18, {5, 9, 5, 10}},   {20, {8, 45, 8, 129}}, {30, {8, 132, 8, 133}}, {32, {8, 45, 8, 133}},
        {38, {8, 32, 8, 135}}, {46, {8, 45, 8, 133}}, {50, {8, 39, 8, 40}},   {52, {8, 33, 8, 34}},
        {58, {8, 45, 8, 133}}, {62, {8, 5, 8, 29}},   {64, {8, 32, 8, 135}},  {66, {9, 12, 9, 13}},
        {68, {9, 14, 9, 15}},  {70, {9, 12, 9, 16}},  {74, {9, 5, 9, 16}},    {76, {0, 0, 0, 0}},
        {78, {6, 12, 6, 22}},  {88, {6, 5, 6, 29}},   {96, {6, 28, 6, 29}},   {98, {6, 24, 6, 25}},
        {104, {6, 5, 6, 29}},  {106, {0, 0, 0, 0}},   {116, {8, 32, 8, 135}}}},
  };
  return all;
}

std::vector<std::byte> bytes_of(const std::string& hex) {
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2)
    bytes.push_back(static_cast<std::byte>(std::stoul(hex.substr(i, 2), nullptr, 16)));
  return bytes;
}

}  // namespace

TEST_CASE("positions are what the interpreter says itself", "[python_positions]") {
  for (const Example& example : examples()) {
    CAPTURE(example.minor_version);
    PythonPositions positions;
    positions.add_function(example.minor_version, 7, bytes_of(example.table));
    positions.add_function(example.minor_version, 1, bytes_of(example.table));
    std::uint32_t last = 0;
    CodePosition expected;
    for (const auto& [offset, position] : example.expected) {
      for (; last < offset; last += 2) CHECK(positions[positions.at(1, last)] == expected);
      expected = position;
      CHECK(positions[positions.at(1, offset)] == expected);
    }
  }
}

TEST_CASE("the same position has one number, and nothing unknown has one", "[python_positions]") {
  PythonPositions positions;
  CHECK(positions.at(0, 0) == 0);
  CHECK(positions.of_line(0) == 0);
  CHECK(positions.of_line(7) != 0);
  CHECK(positions.of_line(7) == positions.of_line(7));
  CHECK(positions[positions.of_line(7)] == CodePosition{.line = 7});
  positions.add_function(11, 1, {});
  CHECK(positions.at(0, 0) == 0);
  CHECK(positions.at(1, 0) == 0);
  CHECK(positions.at(std::uint64_t{1} << 32, 0) == 0);
}

TEST_CASE("no bytes upset the reader of positions", "[python_positions]") {
  std::mt19937 random(1);
  for (int i = 0; i < 20000; ++i) {
    PythonPositions positions;
    std::vector<std::byte> table(random() % 40);
    for (std::byte& byte : table) byte = static_cast<std::byte>(random());
    positions.add_function(9 + static_cast<std::uint32_t>(random() % 6),
                           static_cast<std::uint32_t>(random()), table);
    for (std::uint32_t offset = 0; offset < 600; offset += 37) {
      const CodePosition& position = positions[positions.at(0, offset)];
      CHECK(position.line <= 0x7FFFFFFF);
      CHECK((position.column == 0) == (position.end_column == 0));
    }
    CHECK(positions.at(0, 0xFFFFFFFF) <= table.size() + 1);
  }
}
