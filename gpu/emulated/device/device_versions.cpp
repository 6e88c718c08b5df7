#include "gpu/emulated/device/device_versions.h"

#include <cstdio>
#include <cstdlib>
#include <string>

#include "gpu/models/library_versions.h"

namespace optrace::emulated {
namespace {

const VersionScheme* scheme_of(std::string_view library) {
  for (const VersionScheme& scheme : kVersionSchemes)
    if (scheme.library == library) return &scheme;
  return nullptr;
}

/// Returns the number for the version that the variable names; 0 if it names none.
int named_version(const VersionScheme& scheme) {
  const char* const variable = std::getenv(kVersionsVariable);
  const std::string all = variable == nullptr ? "" : "," + std::string(variable);
  const std::string key = "," + std::string(scheme.library) + "=";
  const std::size_t at = all.find(key);
  if (at == std::string::npos) return 0;
  int major = 0;
  int minor = 0;
  int patch = 0;
  if (std::sscanf(all.c_str() + at + key.size(), "%4d.%4d.%4d", &major, &minor, &patch) < 2)
    return 0;
  return major * scheme.major + minor * scheme.minor + patch * scheme.patch;
}

}  // namespace

int reported_version(std::string_view library, int built) {
  const VersionScheme* const scheme = scheme_of(library);
  const int named = scheme == nullptr ? 0 : named_version(*scheme);
  return named > 0 ? named : built;
}

bool reported_property(std::string_view library, int built, int property, int& value) {
  const VersionScheme* const scheme = scheme_of(library);
  if (scheme == nullptr) return false;
  const int version = reported_version(library, built);
  switch (property) {
    case 0:  // MAJOR_VERSION
      value = version / scheme->major;
      return true;
    case 1:  // MINOR_VERSION
      value = version % scheme->major / scheme->minor;
      return true;
    case 2:  // PATCH_LEVEL
      value = version % scheme->minor;
      return true;
    default:
      return false;
  }
}

}  // namespace optrace::emulated
