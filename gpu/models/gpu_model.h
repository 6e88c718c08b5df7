#pragma once

// The emulated device: a GPU model of gpu_model_table.h, optionally with changed settings. Both the
// command and the emulated device parse the argument of `--dry-run` with this header.

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "gpu/models/gpu_model_table.h"

namespace optrace::emulated {

/// Properties of a device, as reported by cudaGetDeviceProperties.
struct GpuModel {
  const char* arch;  ///< "sm_90"
  const char* name;  ///< "NVIDIA H100 80GB HBM3"
  int major;
  int minor;
  int multiprocessors;
  std::uint64_t memory;  ///< Bytes.
  int l2_cache;          ///< Bytes.
  int memory_bus_width;  ///< Bits.
  int memory_clock;      ///< kHz
  int clock;             ///< kHz
  // Limits of each multiprocessor:
  int threads;        ///< Resident threads.
  int blocks;         ///< Resident blocks.
  int registers;      ///< Registers of 32 bits.
  int shared_memory;  ///< Bytes.
  // Limits of each block:
  int shared_memory_per_block;        ///< Bytes, by default.
  int shared_memory_per_block_optin;  ///< Bytes, the maximum on request.
  int reserved_shared_memory;         ///< Bytes, used by the system.
};

inline GpuModel make_gpu_model(const GpuModelRow& model, const Architecture& architecture) {
  constexpr int kKilo = 1000;
  constexpr int kKibi = 1024;
  constexpr std::uint64_t kMebi = 1ULL << 20;
  return {architecture.name,
          model.name,
          architecture.major,
          architecture.minor,
          model.multiprocessors,
          static_cast<std::uint64_t>(model.memory) * kMebi,
          model.l2_cache * kKibi,
          model.memory_bus_width,
          model.memory_clock * kKilo,
          model.clock * kKilo,
          architecture.threads,
          architecture.blocks,
          65536,
          architecture.shared_memory * kKibi,
          48 * kKibi,
          architecture.shared_memory_optin * kKibi,
          architecture.reserved_shared_memory * kKibi};
}

/// Converts "NVIDIA GeForce RTX 4090" to the form of the table's keys: "rtx-4090".
inline std::string model_key(std::string_view text) {
  std::string key;
  for (const char letter : text) {
    const bool upper = letter >= 'A' && letter <= 'Z';
    const bool gap = letter == ' ' || letter == '_';
    key += gap ? '-' : upper ? static_cast<char>(letter - 'A' + 'a') : letter;
  }
  for (const std::string_view maker : {"nvidia-", "geforce-", "tesla-"})
    if (key.compare(0, maker.size(), maker) == 0) key.erase(0, maker.size());
  return key;
}

/// Finds a GPU model by the name of an architecture or a GPU model. Returns false if there is none.
inline bool find_gpu_model(std::string_view name, GpuModel& gpu_model) {
  std::string key = model_key(name);
  for (const Architecture& architecture : kArchitectures)
    if (name == architecture.name) key = architecture.usual_model;
  for (const GpuModelAlias& alias : kGpuModelAliases)
    if (key == alias.alias) key = alias.key;
  for (const GpuModelRow& model : kGpuModels) {
    if (key != model.key) continue;
    for (const Architecture& architecture : kArchitectures)
      if (std::string_view(model.arch) == architecture.name)
        gpu_model = make_gpu_model(model, architecture);
    return true;
  }
  return false;
}

/// A GPU model or an error message.
struct GpuModelChoice {
  GpuModel gpu_model{};
  std::string wrong;  ///< Error message; empty if valid.
};

/// Parses "sm_89", "rtx-4090" or either with settings: "sm_89,sms=128,memory=24".
inline GpuModelChoice choose_gpu_model(std::string_view text) {
  struct Setting {
    std::string_view name;
    int most;
    void (*set)(GpuModel&, int);
  };
  constexpr std::array<Setting, 4> kSettings{{
      {"sms", 1024, [](GpuModel& gpu_model, int value) { gpu_model.multiprocessors = value; }},
      // Values in GiB, MiB and MHz.
      {"memory", 4096,
       [](GpuModel& gpu_model, int value) {
         gpu_model.memory = static_cast<std::uint64_t>(value) << 30;
       }},
      {"l2", 1024, [](GpuModel& gpu_model, int value) { gpu_model.l2_cache = value << 20; }},
      {"clock", 10000, [](GpuModel& gpu_model, int value) { gpu_model.clock = value * 1000; }},
  }};
  const auto next = [&text] {
    const std::string_view piece = text.substr(0, text.find(','));
    text.remove_prefix(piece.size() == text.size() ? piece.size() : piece.size() + 1);
    return piece;
  };
  GpuModelChoice choice;
  const bool more = !text.empty() && text.back() == ',';
  const std::string_view name = next();
  if (!find_gpu_model(name, choice.gpu_model)) {
    choice.wrong = "no GPU model " + std::string(name) + " can be emulated";
    return choice;
  }
  if (more) choice.wrong = "a setting is missing after the last comma";
  while (!text.empty() && choice.wrong.empty()) {
    const std::string_view piece = next();
    const std::size_t sign = piece.find('=');
    const std::string_view value = sign == piece.npos ? std::string_view() : piece.substr(sign + 1);
    const Setting* known = nullptr;
    for (const Setting& setting : kSettings)
      if (sign != piece.npos && setting.name == piece.substr(0, sign)) known = &setting;
    constexpr std::size_t kMaxDigits = 5;
    int number = 0;
    bool digits = !value.empty() && value.size() <= kMaxDigits;
    for (const char digit : value) {
      digits = digits && digit >= '0' && digit <= '9';
      if (digits) number = number * 10 + (digit - '0');
    }
    if (known == nullptr) {
      choice.wrong = "'" + std::string(piece) +
                     "' is not a setting of a GPU model; the settings are sms=N, memory=GIB, "
                     "l2=MIB and clock=MHZ";
    } else if (!digits || number < 1 || number > known->most) {
      choice.wrong =
          std::string(piece) + " is not a number from 1 to " + std::to_string(known->most);
    } else {
      known->set(choice.gpu_model, number);
    }
  }
  return choice;
}

}  // namespace optrace::emulated
