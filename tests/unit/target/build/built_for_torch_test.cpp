// Libraries that are compiled for a torch: their inputs, the owners that are trusted, and the
// limits of the compiler.
#include "target/build/built_for_torch.h"

#include <atomic>
#include <csignal>
#include <iterator>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <catch2/catch.hpp>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "platform/files/descriptor.h"
#include "platform/files/file_trust.h"
#include "platform/files/private_folder.h"
#include "platform/files/whole_file.h"
#include "target/build/build_inputs.h"
#include "tests/unit/environment_variable.h"
#include "tests/unit/small_library.h"

namespace optrace {
namespace {

using test::write_bytes;

/// Two site-packages folders, one with a header; a source that includes the header; and a cache.
struct Packages {
  Packages() {
    for (const char* const name : {"site/torch/include", "other/torch/include", "source"})
      std::filesystem::create_directories(folder.path() / name);
    write_bytes(header("site"), "#pragma once\ninline int answer() { return 1; }\n");
    write_bytes(source(), "#include <torch.h>\nint ask() { return answer(); }\n");
  }

  std::filesystem::path header(const char* site) const {
    return folder.path() / site / "torch/include/torch.h";
  }
  std::filesystem::path source() const { return folder.path() / "source/ask.cpp"; }
  std::filesystem::path cache() const { return folder.path() / "cache/asking"; }

  BuildDescription description(const char* site = "site") const {
    return {.lacks = "There is no answer.",
            .progress = "building",
            .building = "Building it",
            .cache = "asking",
            .torch_folder = folder.path() / site / "torch",
            .sources = folder.path() / "source",
            .standards = {"-std=c++17"},
            .compile_flags = {"-fPIC"},
            .link_flags = {"-shared"},
            .contents = [this, site](const auto&) {
              return BuildContents{.includes = {"-isystem", header(site).parent_path().string()},
                                   .libraries = {{.name = "libask.so", .sources = {source()}}}};
            }};
  }

  BuiltLibraries build(const char* site = "site") const {
    return find_or_build(description(site), [](std::string_view) {});
  }

  /// Returns true if a cached library is used.
  bool is_kept(const char* site = "site") const {
    BuildDescription description = this->description(site);
    description.obstacle = [] { return std::string("It is not cached."); };
    const auto found = find_or_build(description, [](std::string_view) {});
    CHECK(found.libraries.empty() == (found.missing == "There is no answer. It is not cached."));
    return !found.libraries.empty();
  }

  PrivateFolder folder;
  test::EnvironmentVariable cache_folder{"OPTRACE_CACHE_DIR", (folder.path() / "cache").string()};
};

TEST_CASE("several at once build a library once") {
  const Packages packages;
  const BuildDescription description = packages.description();
  std::atomic<int> built = 0, waited = 0, found = 0;
  std::vector<std::thread> builders;
  builders.reserve(4);
  for (int i = 0; i < 4; ++i) {
    builders.emplace_back([&] {
      const auto libraries = find_or_build(description, [&](std::string_view progress) {
        ++(progress == "building" ? built : waited);
      });
      found += libraries.libraries.size() == 1 && !libraries.folder ? 1 : 0;
    });
  }
  for (std::thread& builder : builders) builder.join();
  CHECK(found == 4);
  CHECK(built == 1);
  CHECK(waited <= 3);
  int files = 0;
  for ([[maybe_unused]] const auto& file : std::filesystem::directory_iterator(packages.cache()))
    ++files;
  CHECK(files == 1);
}

TEST_CASE("who waited for a build that failed builds itself") {
  const Packages packages;
  const BuildDescription description = packages.description();
  std::filesystem::create_directories(packages.cache());
  const Descriptor other(::open(packages.cache().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  REQUIRE(::flock(other.get(), LOCK_EX) == 0);
  std::vector<std::string> progress;
  const auto built = find_or_build(description, [&](std::string_view what) {
    progress.emplace_back(what);
    ::flock(other.get(), LOCK_UN);
  });
  CHECK(built.libraries.size() == 1);
  CHECK(progress ==
        std::vector<std::string>{"waiting for another optrace that is building", "building"});
}

TEST_CASE("a library is used again while all that it was built from is the same") {
  const Packages packages;
  CHECK_FALSE(packages.is_kept());
  const BuiltLibraries built = packages.build();
  INFO(built.missing << built.not_kept);
  REQUIRE(built.libraries.size() == 1);
  CHECK_FALSE(built.folder);
  CHECK(built.library().filename() == "libask.so");
  const auto kept = built.library().parent_path();
  CHECK(kept.parent_path() == packages.cache());
  CHECK(packages.is_kept());
  CHECK(packages.build().libraries == built.libraries);

  // Only the contents of the headers matter, not their time or place.
  const std::string text = test::read_bytes(packages.header("site"));
  write_bytes(packages.header("site"), text);
  CHECK(packages.is_kept());
  CHECK_FALSE(packages.is_kept("other"));
  write_bytes(packages.header("other"), text);
  CHECK(packages.is_kept("other"));
  std::string changed = text;
  changed[changed.find('1')] = '2';
  write_bytes(packages.header("other"), changed);
  CHECK_FALSE(packages.is_kept("other"));
  CHECK(packages.is_kept());

  // The compiler and the header are among the inputs; the source is part of the key.
  const std::string list = test::read_bytes(inputs_path(kept));
  CHECK(list.find("/cc1plus\n") != std::string::npos);
  CHECK(list.find("torch/include/torch.h") != std::string::npos);
  CHECK(list.find(packages.source().string()) != std::string::npos);
  write_bytes(packages.source(), "int ask() { return 3; }\n");
  CHECK_FALSE(packages.is_kept());

  // The list of inputs does not apply to another library in its place.
  write_bytes(packages.source(), "#include <torch.h>\nint ask() { return answer(); }\n");
  REQUIRE(packages.is_kept());
  write_bytes(built.library(), "another");
  CHECK_FALSE(packages.is_kept());

  // What can't be used is replaced.
  CHECK(packages.build().libraries == built.libraries);
  CHECK(packages.is_kept());
  CHECK(test::read_bytes(built.library()) != "another");
  CHECK(std::distance(std::filesystem::directory_iterator(packages.cache()), {}) == 1);

  // An empty or truncated list is not accepted.
  for (const std::size_t size : {std::size_t{0}, std::size_t{5}, list.find('\n') + 1,
                                 list.find('\n', list.find('\n') + 1) + 1}) {
    write_bytes(inputs_path(kept), list.substr(0, size));
    CHECK_FALSE(packages.is_kept());
  }
}

TEST_CASE("several libraries are linked with those of lower levels, and kept together") {
  const Packages packages;
  write_bytes(packages.folder.path() / "source/reply.cpp",
              "int ask();\nint reply() { return ask(); }\n");
  BuildDescription description = packages.description();
  description.link_flags.emplace_back("-Wl,-z,defs");
  description.contents = [&](const auto& folder) {
    const auto generated = folder / "generated.cpp";
    return BuildContents{.includes = {"-isystem", packages.header("site").parent_path().string()},
                         .generators = {{"cp", packages.source().string(), generated.string()}},
                         .libraries = {{.name = "libreply.so",
                                        .sources = {packages.folder.path() / "source/reply.cpp"},
                                        .level = 1},
                                       {.name = "libask.so", .sources = {generated}}},
                         .texts = {{"note", "read me\n"}}};
  };
  for (int round = 0; round < 2; ++round) {
    int built = 0;
    const auto found = find_or_build(description, [&](std::string_view) { ++built; });
    INFO(found.missing);
    REQUIRE(found.libraries.size() == 2);
    CHECK(built == (round == 0 ? 1 : 0));
    CHECK(found.libraries[0].filename() == "libreply.so");
    CHECK(found.libraries[1].filename() == "libask.so");
    CHECK(test::read_bytes(found.library().parent_path() / "note") == "read me\n");
  }
}

TEST_CASE("what others can change leaves nothing in the cache") {
  const Packages packages;
  CHECK(distrust_of(packages.header("site")).empty());
  const auto torch = packages.folder.path() / "site/torch";
  REQUIRE(::chmod(torch.c_str(), 0777) == 0);
  CHECK_THAT(distrust_of(packages.header("site")),
             Catch::Contains("everybody may write to") && Catch::Contains(torch.string()));
  const BuiltLibraries built = packages.build();
  INFO(built.missing);
  REQUIRE(built.folder);
  CHECK(std::filesystem::exists(built.library()));
  CHECK_THAT(not_kept_warning(built), Catch::Contains("everybody may write to"));
  std::vector<std::string> warnings;
  for (int round = 0; round < 2; ++round) add_not_kept_warning(built, warnings);
  CHECK(warnings.size() == 1);
  CHECK(std::filesystem::is_empty(packages.cache()));
  REQUIRE(::chmod(torch.c_str(), 01777) == 0);
  CHECK(distrust_of(packages.header("site")).empty());
  CHECK_THAT(distrust_of(torch / "absent"), Catch::Contains("can't be found"));

  // The same applies to files that only the key covers.
  const auto open_file = packages.folder.path() / "open";
  write_bytes(open_file, "");
  REQUIRE(::chmod(open_file.c_str(), 0666) == 0);
  BuildDescription description = packages.description();
  description.key_files = {open_file};
  const auto other = find_or_build(description, [](std::string_view) {});
  CHECK_THAT(other.not_kept, Catch::Contains(open_file.string()));
  CHECK(std::filesystem::is_empty(packages.cache()));

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
    const auto failure = run_build_steps({{"sh", "-c", script}}, 1, folder.path(), [] {});
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

TEST_CASE("what ends a build ends its programs") {
  const PrivateFolder folder;
  const auto begun = folder.path() / "begun";
  CHECK_THROWS_WITH(
      run_build_steps({{"sh", "-c", "echo $$ > begun; exec sleep infinity"}}, 1, folder.path(),
                      [&] {
                        if (!read_file(begun).value_or("").empty())
                          throw std::runtime_error("enough");
                      }),
      "enough");
  CHECK(::kill(std::stoi(read_file(begun).value_or("")), 0) != 0);
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
