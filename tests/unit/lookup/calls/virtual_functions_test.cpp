#include "lookup/calls/virtual_functions.h"

#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "platform/files/private_folder.h"
#include "tests/unit/small_library.h"

using namespace optrace;
using namespace optrace::test;

namespace {

using Symbols = std::vector<std::string>;

constexpr std::string_view kShapes = R"(
namespace shapes {
struct Shape {
  virtual ~Shape();
  virtual int sides(const Shape* other) const = 0;  // Pure: it has no symbol.
  virtual int area();
  int name();  // Not virtual.
};
struct Colour {
  virtual int mix(int);
  virtual void operator()(long);
};
struct Square : Shape {
  int sides(const Shape* other) const override;
  virtual int sides(int) const;  // Another function.
  int name();
};
// Its table for Colour has thunks.
struct Painted : Square, Colour {
  int area() override;
  int mix(int) override;
  void operator()(long) override;
};
Shape::~Shape() {}
int Shape::area() { return 1; }
int Shape::name() { return 1; }
int Colour::mix(int one) { return one; }
void Colour::operator()(long) {}
int Square::sides(const Shape*) const { return 4; }
int Square::sides(int) const { return 4; }
int Square::name() { return 2; }
int Painted::area() { return 3; }
int Painted::mix(int one) { return one + 1; }
void Painted::operator()(long) {}
namespace {
struct Hidden : Colour { int mix(int) override; };
int Hidden::mix(int one) { return one + 2; }
}
Shape* make_shape() { return new Painted; }
Colour* make_hidden() { return new Hidden; }
}
)";

constexpr std::string_view kMore = R"(
namespace shapes {
struct Colour {
  virtual int mix(int);
  virtual void operator()(long);
};
struct Red : Colour { int mix(int) override; };
int Red::mix(int one) { return one + 3; }
Colour* make_red() { return new Red; }
}
)";

const std::string kSides = "_ZNK6shapes5Shape5sidesEPKS0_";
const std::string kMix = "_ZN6shapes6Colour3mixEi";
const std::string kPaintedMix = "_ZN6shapes7Painted3mixEi";

struct Shapes {
  PrivateFolder folder;
  VirtualFunctions functions{{build_library(folder.path(), "shapes.cpp", kShapes),
                              build_library(folder.path(), "more.cpp", kMore),
                              "/nonexistent/library.so"}};
};

}  // namespace

TEST_CASE("overriders come from the virtual tables of all libraries", "[virtual_functions]") {
  Shapes shapes;
  CHECK(shapes.functions.overriders(kSides) == Symbols{"_ZNK6shapes6Square5sidesEPKNS_5ShapeE"});
  CHECK(shapes.functions.overriders(kMix) ==
        Symbols{"_ZN6shapes12_GLOBAL__N_16Hidden3mixEi", "_ZN6shapes3Red3mixEi", kPaintedMix});
  CHECK(shapes.functions.overriders("_ZN6shapes6ColourclEl") == Symbols{"_ZN6shapes7PaintedclEl"});
  // Of a class that is derived from a derived one.
  CHECK(shapes.functions.overriders("_ZN6shapes5Shape4areaEv") ==
        Symbols{"_ZN6shapes7Painted4areaEv"});
  for (const char* const none : {"_ZN6shapes6Colour4nameEv", "_ZN6shapes5ShapeD1Ev", "_ZN", "main",
                                 "_ZNK6shapes6Square5sidesEi", "_ZN6shapes10make_shapeEv", ""})
    CHECK(shapes.functions.overriders(none).empty());
}

TEST_CASE("a function overrides those of its bases with the same parameters",
          "[virtual_functions]") {
  Shapes shapes;
  CHECK(shapes.functions.shared_part(kPaintedMix) == "3mix");
  CHECK(shapes.functions.shared_part("_ZN6shapes7PaintedclEl") == "cl");
  CHECK(shapes.functions.overrides(kPaintedMix, kMix));
  CHECK(shapes.functions.overrides("_ZNK6shapes6Square5sidesEPKNS_5ShapeE", kSides));
  CHECK(shapes.functions.overrides("_ZN6shapes12_GLOBAL__N_16Hidden3mixEi", kMix));
  CHECK_FALSE(shapes.functions.overrides(kMix, kPaintedMix));
  CHECK_FALSE(shapes.functions.overrides("_ZNK6shapes6Square5sidesEi", kSides));
  CHECK_FALSE(shapes.functions.overrides("_ZN6shapes3Red3mixEi", kPaintedMix));
  // A class without a base, and a function that is not virtual.
  CHECK(shapes.functions.shared_part(kMix).empty());
  CHECK(shapes.functions.shared_part("_ZN6shapes6Square4nameEv").empty());
}

TEST_CASE("a stripped library has no virtual functions", "[virtual_functions]") {
  const PrivateFolder folder;
  const auto library = build_library(folder.path(), "more.cpp", kMore, {"-fvisibility=hidden"});
  VirtualFunctions functions({stripped_copy(library)});
  CHECK(functions.overriders(kMix).empty());
}
