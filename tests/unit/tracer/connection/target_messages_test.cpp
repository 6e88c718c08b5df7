#include "tracer/connection/target_messages.h"

#include <random>
#include <string>

#include <catch2/catch.hpp>

#include "platform/error.h"
#include "tracer/connection/process_message.h"

using namespace optrace;

TEST_CASE("messages are taken one line at a time, however they arrive") {
  TargetMessages messages;
  messages.append(R"({"message": "a", "n")");
  CHECK_FALSE(messages.ready());
  messages.append(": 1}\n{\"message\": \"b\"}\n{");
  REQUIRE(messages.ready());
  CHECK(messages.take().kind() == "a");
  REQUIRE(messages.ready());
  CHECK(messages.take().kind() == "b");
  CHECK_FALSE(messages.ready());
}

TEST_CASE("a long line in small pieces, and many lines in one piece, take linear time") {
  constexpr std::size_t kMost = 3;  // How often each received byte is touched.
  TargetMessages messages;
  const std::string part(32, ' ');
  std::size_t received = 0;
  const auto append = [&](const std::string& bytes) {
    messages.append(bytes);
    received += bytes.size();
  };
  append("{");
  for (std::size_t size = 0; size < TargetMessages::kMaxLineLength / 16; size += part.size()) {
    append(part);
    REQUIRE_FALSE(messages.ready());
  }
  append("\"message\": \"a\"}\n");
  REQUIRE(messages.ready());
  CHECK(messages.take().kind() == "a");
  CHECK(messages.bytes_touched() <= kMost * received);
  std::string lines;
  for (int i = 0; i < 20'000; ++i) lines += "{\"message\": \"b\"}\n";
  append(lines);
  int taken = 0;
  for (; messages.ready(); ++taken) {
    messages.take();
    if (taken % 100 == 0) append("{\"message\": \"c\"}\n");
  }
  CHECK(taken > 20'000);
  CHECK(messages.bytes_touched() <= kMost * received);
}

TEST_CASE("what is no message is refused") {
  for (const std::string line :
       {"", "[]", "7", "{}", "{\"message\": 1}", "{\"message\": \"x\"", "\xff\xfe", "nonsense"}) {
    TargetMessages messages;
    messages.append(line + "\n");
    CHECK_THROWS_AS(messages.take(), Error);
  }
  TargetMessages deep;
  deep.append(R"({"message": )" + std::string(1 << 20, '[') + "\n");
  CHECK_THROWS_AS(deep.take(), Error);
}

TEST_CASE("a message without end is refused, not kept") {
  TargetMessages messages;
  const std::string part(1 << 20, 'x');
  const auto flood = [&] {
    for (std::size_t size = 0; size <= TargetMessages::kMaxLineLength; size += part.size()) {
      messages.append(part);
    }
  };
  CHECK_THROWS_AS(flood(), Error);
}

TEST_CASE("no line of a target breaks the reader") {
  const std::string good =
      R"({"message": "meta", "meta": {"op_names": {"a": "b"}, "x": [1, null]}})";
  std::mt19937 random(7);
  for (unsigned turn = 0; turn < 20000; ++turn) {
    std::string line = good;
    for (unsigned change = 0; change <= turn % 4; ++change) {
      line[random() % line.size()] = static_cast<char>(random() % 256);
    }
    TargetMessages messages;
    messages.append(line + "\n");
    while (messages.ready()) {
      try {
        const auto message = messages.take();
        CHECK_NOTHROW(process_in(message));
      } catch (const Error& error) {
        CHECK(error.status() == ExitStatus::failed);
      }
    }
  }
}
