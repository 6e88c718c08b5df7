// Libraries that are compiled for a torch: their inputs, the owners that are trusted, and the
// limits of the compiler.
#include "tracer/runtime_build/built_for_torch.h"

#include <catch2/catch.hpp>
#include <sys/stat.h>
#include <unistd.h>

#include "platform/file_trust.h"
#include "platform/private_folder.h"
#include "tests/unit/small_library.h"
#include "tracer/runtime_build/build_inputs.h"

namespace optrace {
namespace {

using test::write_bytes;

/// Two site-packages folders, one with a header; a source that includes the header; and a cache.
struct Packages {
  Packages() {
    for (const char* const name : {"site/torch/include", "other/torch/include", "cache", "source"})
      std::filesystem::create_directories(folder.path() / name);
    write_bytes(header("site"), "#pragma once\ninline int answer() { return 1; }\n");
    write_bytes(source(), "#include <torch.h>\nint ask() { return answer(); }\n");
  }

  std::filesystem::path header(const char* site) const {
    return folder.path() / site / "torch/include/torch.h";
  }
  std::filesystem::path source() const { return folder.path() / "source/ask.cpp"; }
  BuildPlace place(const char* site = "site") const {
    return {folder.path() / "cache", "libask.so", folder.path() / site, find_compiler().value()};
  }
  LibraryBuild build(const char* site = "site") const {
    return {{source()}, {"-fPIC", "-isystem", header(site).parent_path().string()}, {"-shared"}};
  }

  PrivateFolder folder;
};

TEST_CASE("a library is used again while all that it was built from is the same") {
  const Packages packages;
  CHECK_FALSE(kept_library(packages.place()));
  const BuiltLibrary built = build_library(packages.place(), packages.build());
  INFO(built.failure << built.not_kept);
  REQUIRE(built.path == packages.folder.path() / "cache/libask.so");
  CHECK(kept_library(packages.place()) == built.path);

  // Only the contents of the headers matter, not their time or place.
  const std::string text = test::read_bytes(packages.header("site"));
  write_bytes(packages.header("site"), text);
  CHECK(kept_library(packages.place()));
  CHECK_FALSE(kept_library(packages.place("other")));
  write_bytes(packages.header("other"), text);
  CHECK(kept_library(packages.place("other")));
  std::string changed = text;
  changed[changed.find('1')] = '2';
  write_bytes(packages.header("other"), changed);
  CHECK_FALSE(kept_library(packages.place("other")));
  CHECK(kept_library(packages.place()));

  // The source and the compiler are among the inputs.
  const std::string list = test::read_bytes(inputs_path(built.path));
  CHECK(list.find(std::filesystem::canonical(packages.place().compiler).string()) !=
        std::string::npos);
  CHECK(list.find("torch/include/torch.h") != std::string::npos);
  write_bytes(packages.source(), "int ask() { return 3; }\n");
  CHECK_FALSE(kept_library(packages.place()));

  // The list of inputs does not apply to another library in its place.
  write_bytes(packages.source(), "#include <torch.h>\nint ask() { return answer(); }\n");
  REQUIRE(kept_library(packages.place()));
  write_bytes(built.path, "another");
  CHECK_FALSE(kept_library(packages.place()));

  // An empty or truncated list is not accepted.
  for (const std::size_t size : {std::size_t{0}, std::size_t{5}, list.find('\n') + 1}) {
    write_bytes(inputs_path(built.path), list.substr(0, size));
    CHECK_FALSE(kept_library(packages.place()));
  }
}

TEST_CASE("what others can change leaves nothing in the cache") {
  const Packages packages;
  CHECK(distrust_of(packages.header("site")).empty());
  const auto torch = packages.folder.path() / "site/torch";
  REQUIRE(::chmod(torch.c_str(), 0777) == 0);
  CHECK_THAT(distrust_of(packages.header("site")),
             Catch::Contains("everybody may write to") && Catch::Contains(torch.string()));
  const BuiltLibrary built = build_library(packages.place(), packages.build());
  INFO(built.failure);
  REQUIRE(built.folder);
  CHECK(std::filesystem::exists(built.path));
  CHECK_THAT(not_kept_warning(built.folder, built.not_kept),
             Catch::Contains("everybody may write to"));
  CHECK(std::filesystem::is_empty(packages.folder.path() / "cache"));
  REQUIRE(::chmod(torch.c_str(), 01777) == 0);
  CHECK(distrust_of(packages.header("site")).empty());
  CHECK_THAT(distrust_of(torch / "absent"), Catch::Contains("can't be found"));

  if (::geteuid() != 0) {
    WARN("skipped: only root can give files to another user");
    return;
  }
  REQUIRE(::chown(torch.c_str(), 65534, 0) == 0);
  CHECK(distrust_of(packages.header("site")) == torch.string() + " belongs to another user");
  // A symbolic link is judged by its target.
  const auto link = packages.folder.path() / "link.h";
  std::filesystem::create_symlink(packages.header("site"), link);
  CHECK(distrust_of(link) == distrust_of(packages.header("site")));
}

TEST_CASE("a compiler runs with limits") {
  const PrivateFolder folder;
  const auto said = [&](const std::string& script) {
    const auto failure = run_build_steps({{"sh", "-c", script}}, 1, folder.path());
    return failure ? failure->said : std::string();
  };
#ifdef __SANITIZE_ADDRESS__
  const std::string memory = "unlimited";  // AddressSanitizer reserves more than any limit.
#else
  const std::string memory = "8388608";
#endif
  // Units: seconds of processor time, kB of memory, 512-byte blocks of output.
  CHECK(said("echo \"error: $(ulimit -t) $(ulimit -v) $(ulimit -f) $(ulimit -c)\"; exit 1") ==
        "error: 300 " + memory + " 1048576 0");
  CHECK_THAT(said("exec head -c 600000000 /dev/zero > large"), Catch::Contains("SIGXFSZ"));
  CHECK(said("true").empty());
}

TEST_CASE("a rule of make is read as compilers write it") {
  const auto files = parse_dependencies(
      "/x/a\\ b.o: /x/a.cpp \\\n /usr/include/stdc-predef.h /y/with\\ space.h \\\n  "
      "/z/$$1\\#2.h\n");
  CHECK(files == std::vector<std::filesystem::path>{"/x/a.cpp", "/usr/include/stdc-predef.h",
                                                    "/y/with space.h", "/z/$1#2.h"});
  CHECK(parse_dependencies("").empty());
  CHECK(parse_dependencies("a.o:").empty());
}

}  // namespace
}  // namespace optrace
