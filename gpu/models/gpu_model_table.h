#pragma once

// The GPU models that can be emulated. The command also uses these tables: they list the arguments
// of `--dry-run`.

#include <array>

namespace optrace::emulated {

/// Common properties of all GPUs of a compute capability: "Technical Specifications per Compute
/// Capability" in NVIDIA's CUDA C++ Programming Guide.
struct Architecture {
  const char* name;  ///< "sm_90"
  int major;
  int minor;
  const char* usual_model;  ///< The model selected by the architecture's name.
  // Limits of each multiprocessor:
  int threads;        ///< Resident threads.
  int blocks;         ///< Resident blocks.
  int shared_memory;  ///< KiB.
  // Limits of each block:
  int shared_memory_optin;     ///< KiB, the maximum on request; the default is 48.
  int reserved_shared_memory;  ///< KiB, used by the system.
};

inline constexpr std::array<Architecture, 11> kArchitectures{{
    {"sm_60", 6, 0, "p100-sxm2-16gb", 2048, 32, 64, 48, 0},
    {"sm_61", 6, 1, "gtx-1080-ti", 2048, 32, 96, 48, 0},
    {"sm_70", 7, 0, "v100-sxm2-16gb", 2048, 32, 96, 96, 0},
    {"sm_75", 7, 5, "t4", 1024, 16, 64, 64, 0},
    {"sm_80", 8, 0, "a100-80gb", 2048, 32, 164, 163, 1},
    {"sm_86", 8, 6, "a10", 1536, 16, 100, 99, 1},
    {"sm_89", 8, 9, "l4", 1536, 24, 100, 99, 1},
    {"sm_90", 9, 0, "h100-sxm", 2048, 32, 228, 227, 1},
    {"sm_100", 10, 0, "b200", 2048, 32, 228, 227, 1},
    {"sm_103", 10, 3, "b300", 2048, 32, 228, 227, 1},
    {"sm_120", 12, 0, "rtx-5090", 1536, 24, 100, 99, 1},
}};

/// A product as described by cudaGetDeviceProperties, from NVIDIA's data sheets and white papers.
/// The number of multiprocessors influences grids; the other values are only reported to programs.
struct GpuModelRow {
  const char* key;   ///< The argument of `--dry-run`: "rtx-4090".
  const char* name;  ///< "NVIDIA GeForce RTX 4090"
  const char* arch;  ///< "sm_89"
  int multiprocessors;
  /// MiB; the memory available to CUDA, slightly less than in the data sheet.
  int memory;
  int l2_cache;          ///< KiB.
  int memory_bus_width;  ///< Bits.
  int memory_clock;      ///< MHz
  int clock;             ///< MHz
};

inline constexpr std::array<GpuModelRow, 125> kGpuModels{{
    // Data centre.
    {"h100-sxm", "NVIDIA H100 80GB HBM3", "sm_90", 132, 81079, 51200, 5120, 2619, 1980},
    {"h100-pcie", "NVIDIA H100 PCIe", "sm_90", 114, 81086, 51200, 5120, 1593, 1755},
    {"h100-nvl", "NVIDIA H100 NVL", "sm_90", 132, 95248, 61440, 6144, 2619, 1785},
    {"h800", "NVIDIA H800", "sm_90", 132, 81079, 51200, 5120, 2619, 1980},
    {"h800-pcie", "NVIDIA H800 PCIe", "sm_90", 114, 81086, 51200, 5120, 1593, 1755},
    {"h20", "NVIDIA H20", "sm_90", 78, 97354, 61440, 6144, 2619, 1980},
    {"h200", "NVIDIA H200", "sm_90", 132, 143156, 61440, 6144, 3201, 1980},
    {"h200-nvl", "NVIDIA H200 NVL", "sm_90", 132, 143156, 61440, 6144, 3201, 1785},
    {"gh200", "NVIDIA GH200 480GB", "sm_90", 132, 96768, 61440, 6144, 2619, 1980},
    {"gh200-144gb", "NVIDIA GH200 144G HBM3e", "sm_90", 132, 146832, 61440, 6144, 3201, 1980},
    {"b200", "NVIDIA B200", "sm_100", 148, 182642, 129024, 8192, 3996, 1965},
    {"gb200", "NVIDIA GB200", "sm_100", 152, 188416, 129024, 8192, 3996, 2062},
    {"b300", "NVIDIA B300 SXM6 AC", "sm_103", 148, 274432, 129024, 8192, 3996, 2032},
    {"gb300", "NVIDIA GB300", "sm_103", 152, 283648, 129024, 8192, 3996, 2070},
    {"a100-80gb", "NVIDIA A100-SXM4-80GB", "sm_80", 108, 81154, 40960, 5120, 1593, 1410},
    {"a100-40gb", "NVIDIA A100-SXM4-40GB", "sm_80", 108, 40338, 40960, 5120, 1215, 1410},
    {"a100-pcie-80gb", "NVIDIA A100 80GB PCIe", "sm_80", 108, 81051, 40960, 5120, 1512, 1410},
    {"a100-pcie-40gb", "NVIDIA A100-PCIE-40GB", "sm_80", 108, 40338, 40960, 5120, 1215, 1410},
    {"a800-80gb", "NVIDIA A800-SXM4-80GB", "sm_80", 108, 81154, 40960, 5120, 1593, 1410},
    {"a800-pcie-80gb", "NVIDIA A800 80GB PCIe", "sm_80", 108, 81051, 40960, 5120, 1512, 1410},
    {"a30", "NVIDIA A30", "sm_80", 56, 24062, 24576, 3072, 1215, 1440},
    {"a10", "NVIDIA A10", "sm_86", 72, 22516, 6144, 384, 6251, 1695},
    {"a10g", "NVIDIA A10G", "sm_86", 80, 22723, 6144, 384, 6251, 1710},
    {"a10m", "NVIDIA A10M", "sm_86", 64, 22516, 6144, 384, 6251, 1635},
    {"a16", "NVIDIA A16", "sm_86", 10, 14891, 2048, 128, 6251, 1755},
    {"a2", "NVIDIA A2", "sm_86", 10, 14891, 2048, 128, 6251, 1770},
    {"a40", "NVIDIA A40", "sm_86", 84, 45416, 6144, 384, 7251, 1740},
    {"l4", "NVIDIA L4", "sm_89", 58, 22478, 49152, 192, 6251, 2040},
    {"l20", "NVIDIA L20", "sm_89", 92, 45588, 98304, 384, 9001, 2520},
    {"l40", "NVIDIA L40", "sm_89", 142, 45588, 98304, 384, 9001, 2490},
    {"l40s", "NVIDIA L40S", "sm_89", 142, 45588, 98304, 384, 9001, 2520},
    {"t4", "Tesla T4", "sm_75", 40, 15102, 4096, 256, 5001, 1590},
    {"t4g", "NVIDIA T4G", "sm_75", 40, 15102, 4096, 256, 5001, 1590},
    {"v100-sxm2-16gb", "Tesla V100-SXM2-16GB", "sm_70", 80, 16160, 6144, 4096, 877, 1530},
    {"v100-sxm2-32gb", "Tesla V100-SXM2-32GB", "sm_70", 80, 32510, 6144, 4096, 877, 1530},
    {"v100-sxm3-32gb", "Tesla V100-SXM3-32GB", "sm_70", 80, 32510, 6144, 4096, 958, 1597},
    {"v100-pcie-16gb", "Tesla V100-PCIE-16GB", "sm_70", 80, 16160, 6144, 4096, 877, 1380},
    {"v100-pcie-32gb", "Tesla V100-PCIE-32GB", "sm_70", 80, 32510, 6144, 4096, 877, 1380},
    {"v100s-pcie-32gb", "Tesla V100S-PCIE-32GB", "sm_70", 80, 32510, 6144, 4096, 1107, 1597},
    {"p100-sxm2-16gb", "Tesla P100-SXM2-16GB", "sm_60", 56, 16280, 4096, 4096, 715, 1480},
    {"p100-pcie-16gb", "Tesla P100-PCIE-16GB", "sm_60", 56, 16280, 4096, 4096, 715, 1328},
    {"p100-pcie-12gb", "Tesla P100-PCIE-12GB", "sm_60", 56, 12198, 3072, 3072, 715, 1328},
    {"p40", "Tesla P40", "sm_61", 30, 22919, 3072, 384, 3615, 1531},
    {"p4", "Tesla P4", "sm_61", 20, 7611, 2048, 256, 3003, 1113},
    // GeForce and TITAN.
    {"rtx-5090", "NVIDIA GeForce RTX 5090", "sm_120", 170, 32106, 98304, 512, 14001, 2407},
    {"rtx-5090-d", "NVIDIA GeForce RTX 5090 D", "sm_120", 170, 32106, 98304, 512, 14001, 2407},
    {"rtx-5080", "NVIDIA GeForce RTX 5080", "sm_120", 84, 15841, 65536, 256, 15001, 2617},
    {"rtx-5070-ti", "NVIDIA GeForce RTX 5070 Ti", "sm_120", 70, 15841, 49152, 256, 14001, 2452},
    {"rtx-5070", "NVIDIA GeForce RTX 5070", "sm_120", 48, 11905, 49152, 192, 14001, 2512},
    {"rtx-5060-ti", "NVIDIA GeForce RTX 5060 Ti", "sm_120", 36, 15848, 32768, 128, 14001, 2572},
    {"rtx-5060-ti-8gb", "NVIDIA GeForce RTX 5060 Ti", "sm_120", 36, 7808, 32768, 128, 14001, 2572},
    {"rtx-5060", "NVIDIA GeForce RTX 5060", "sm_120", 30, 7808, 32768, 128, 14001, 2497},
    {"rtx-5050", "NVIDIA GeForce RTX 5050", "sm_120", 20, 7808, 24576, 128, 10001, 2572},
    {"rtx-4090", "NVIDIA GeForce RTX 4090", "sm_89", 128, 24209, 73728, 384, 10501, 2520},
    {"rtx-4090-d", "NVIDIA GeForce RTX 4090 D", "sm_89", 114, 24209, 73728, 384, 10501, 2520},
    {"rtx-4080-super", "NVIDIA GeForce RTX 4080 SUPER", "sm_89", 80, 16072, 65536, 256, 11501,
     2550},
    {"rtx-4080", "NVIDIA GeForce RTX 4080", "sm_89", 76, 16072, 65536, 256, 11201, 2505},
    {"rtx-4070-ti-super", "NVIDIA GeForce RTX 4070 Ti SUPER", "sm_89", 66, 16072, 49152, 256, 10501,
     2610},
    {"rtx-4070-ti", "NVIDIA GeForce RTX 4070 Ti", "sm_89", 60, 11994, 49152, 192, 10501, 2610},
    {"rtx-4070-super", "NVIDIA GeForce RTX 4070 SUPER", "sm_89", 56, 11994, 49152, 192, 10501,
     2475},
    {"rtx-4070", "NVIDIA GeForce RTX 4070", "sm_89", 46, 11994, 36864, 192, 10501, 2475},
    {"rtx-4060-ti-16gb", "NVIDIA GeForce RTX 4060 Ti", "sm_89", 34, 16072, 32768, 128, 9001, 2535},
    {"rtx-4060-ti", "NVIDIA GeForce RTX 4060 Ti", "sm_89", 34, 7940, 32768, 128, 9001, 2535},
    {"rtx-4060", "NVIDIA GeForce RTX 4060", "sm_89", 24, 7940, 24576, 128, 8501, 2460},
    {"rtx-3090-ti", "NVIDIA GeForce RTX 3090 Ti", "sm_86", 84, 24245, 6144, 384, 10501, 1860},
    {"rtx-3090", "NVIDIA GeForce RTX 3090", "sm_86", 82, 24259, 6144, 384, 9751, 1695},
    {"rtx-3080-ti", "NVIDIA GeForce RTX 3080 Ti", "sm_86", 80, 12044, 6144, 384, 9501, 1665},
    {"rtx-3080-12gb", "NVIDIA GeForce RTX 3080", "sm_86", 70, 12044, 6144, 384, 9501, 1710},
    {"rtx-3080", "NVIDIA GeForce RTX 3080", "sm_86", 68, 10014, 5120, 320, 9501, 1710},
    {"rtx-3070-ti", "NVIDIA GeForce RTX 3070 Ti", "sm_86", 48, 7974, 4096, 256, 9501, 1770},
    {"rtx-3070", "NVIDIA GeForce RTX 3070", "sm_86", 46, 7974, 4096, 256, 7001, 1725},
    {"rtx-3060-ti", "NVIDIA GeForce RTX 3060 Ti", "sm_86", 38, 7974, 4096, 256, 7001, 1665},
    {"rtx-3060", "NVIDIA GeForce RTX 3060", "sm_86", 28, 12044, 3072, 192, 7501, 1777},
    {"rtx-3050", "NVIDIA GeForce RTX 3050", "sm_86", 20, 7972, 2048, 128, 7001, 1777},
    {"titan-rtx", "NVIDIA TITAN RTX", "sm_75", 72, 24220, 6144, 384, 7001, 1770},
    {"rtx-2080-ti", "NVIDIA GeForce RTX 2080 Ti", "sm_75", 68, 11019, 5632, 352, 7000, 1545},
    {"rtx-2080-super", "NVIDIA GeForce RTX 2080 SUPER", "sm_75", 48, 7974, 4096, 256, 7751, 1815},
    {"rtx-2080", "NVIDIA GeForce RTX 2080", "sm_75", 46, 7974, 4096, 256, 7001, 1710},
    {"rtx-2070-super", "NVIDIA GeForce RTX 2070 SUPER", "sm_75", 40, 7974, 4096, 256, 7001, 1770},
    {"rtx-2070", "NVIDIA GeForce RTX 2070", "sm_75", 36, 7974, 4096, 256, 7001, 1620},
    {"rtx-2060-super", "NVIDIA GeForce RTX 2060 SUPER", "sm_75", 34, 7974, 4096, 256, 7001, 1650},
    {"rtx-2060-12gb", "NVIDIA GeForce RTX 2060", "sm_75", 34, 12044, 3072, 192, 7001, 1650},
    {"rtx-2060", "NVIDIA GeForce RTX 2060", "sm_75", 30, 5934, 3072, 192, 7001, 1680},
    {"gtx-1660-ti", "NVIDIA GeForce GTX 1660 Ti", "sm_75", 24, 5944, 1536, 192, 6001, 1770},
    {"gtx-1660-super", "NVIDIA GeForce GTX 1660 SUPER", "sm_75", 22, 5944, 1536, 192, 7001, 1785},
    {"gtx-1660", "NVIDIA GeForce GTX 1660", "sm_75", 22, 5944, 1536, 192, 4001, 1785},
    {"gtx-1650-super", "NVIDIA GeForce GTX 1650 SUPER", "sm_75", 20, 3909, 1024, 128, 6001, 1725},
    {"gtx-1650", "NVIDIA GeForce GTX 1650", "sm_75", 14, 3909, 1024, 128, 4001, 1665},
    {"gtx-1630", "NVIDIA GeForce GTX 1630", "sm_75", 8, 3909, 512, 64, 6001, 1785},
    {"titan-v", "NVIDIA TITAN V", "sm_70", 80, 12056, 4608, 3072, 850, 1455},
    {"titan-xp", "NVIDIA TITAN Xp", "sm_61", 30, 12194, 3072, 384, 5705, 1582},
    {"titan-x-pascal", "NVIDIA TITAN X (Pascal)", "sm_61", 28, 12194, 3072, 384, 5005, 1531},
    {"gtx-1080-ti", "NVIDIA GeForce GTX 1080 Ti", "sm_61", 28, 11171, 2816, 352, 5505, 1582},
    {"gtx-1080", "NVIDIA GeForce GTX 1080", "sm_61", 20, 8118, 2048, 256, 5005, 1733},
    {"gtx-1070-ti", "NVIDIA GeForce GTX 1070 Ti", "sm_61", 19, 8118, 2048, 256, 4004, 1683},
    {"gtx-1070", "NVIDIA GeForce GTX 1070", "sm_61", 15, 8118, 2048, 256, 4004, 1683},
    {"gtx-1060", "NVIDIA GeForce GTX 1060 6GB", "sm_61", 10, 6077, 1536, 192, 4004, 1708},
    {"gtx-1060-3gb", "NVIDIA GeForce GTX 1060 3GB", "sm_61", 9, 3017, 1536, 192, 4004, 1708},
    {"gtx-1050-ti", "NVIDIA GeForce GTX 1050 Ti", "sm_61", 6, 4036, 1024, 128, 3504, 1392},
    {"gtx-1050", "NVIDIA GeForce GTX 1050", "sm_61", 5, 1999, 1024, 128, 3504, 1455},
    // Workstations.
    {"rtx-pro-6000", "NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "sm_120", 188, 97250,
     131072, 512, 14001, 2617},
    {"rtx-pro-6000-server", "NVIDIA RTX PRO 6000 Blackwell Server Edition", "sm_120", 188, 97250,
     131072, 512, 12481, 2430},
    {"rtx-pro-5000", "NVIDIA RTX PRO 5000 Blackwell", "sm_120", 110, 48393, 98304, 384, 14001,
     2617},
    {"rtx-pro-4500", "NVIDIA RTX PRO 4500 Blackwell", "sm_120", 82, 32106, 65536, 256, 14001, 2617},
    {"rtx-pro-4000", "NVIDIA RTX PRO 4000 Blackwell", "sm_120", 70, 24035, 49152, 192, 14001, 2617},
    {"rtx-6000-ada", "NVIDIA RTX 6000 Ada Generation", "sm_89", 142, 48508, 98304, 384, 10001,
     2505},
    {"rtx-5880-ada", "NVIDIA RTX 5880 Ada Generation", "sm_89", 110, 48508, 98304, 384, 9001, 2460},
    {"rtx-5000-ada", "NVIDIA RTX 5000 Ada Generation", "sm_89", 100, 32172, 73728, 256, 9001, 2550},
    {"rtx-4500-ada", "NVIDIA RTX 4500 Ada Generation", "sm_89", 60, 24078, 49152, 192, 9001, 2580},
    {"rtx-4000-ada", "NVIDIA RTX 4000 Ada Generation", "sm_89", 48, 20036, 49152, 160, 9001, 2175},
    {"rtx-4000-sff-ada", "NVIDIA RTX 4000 SFF Ada Generation", "sm_89", 48, 20036, 49152, 160, 7001,
     1560},
    {"rtx-2000-ada", "NVIDIA RTX 2000 Ada Generation", "sm_89", 22, 16072, 12288, 128, 8001, 2130},
    {"rtx-a6000", "NVIDIA RTX A6000", "sm_86", 84, 48670, 6144, 384, 8001, 1800},
    {"rtx-a5500", "NVIDIA RTX A5500", "sm_86", 80, 24245, 6144, 384, 8001, 1665},
    {"rtx-a5000", "NVIDIA RTX A5000", "sm_86", 64, 24245, 6144, 384, 8001, 1695},
    {"rtx-a4500", "NVIDIA RTX A4500", "sm_86", 56, 20185, 6144, 320, 8001, 1650},
    {"rtx-a4000", "NVIDIA RTX A4000", "sm_86", 48, 16101, 4096, 256, 7001, 1560},
    {"rtx-a2000", "NVIDIA RTX A2000", "sm_86", 26, 5937, 3072, 192, 6001, 1200},
    {"rtx-a2000-12gb", "NVIDIA RTX A2000 12GB", "sm_86", 26, 12044, 3072, 192, 6001, 1200},
    {"quadro-rtx-8000", "Quadro RTX 8000", "sm_75", 72, 48593, 6144, 384, 7001, 1770},
    {"quadro-rtx-6000", "Quadro RTX 6000", "sm_75", 72, 24212, 6144, 384, 7001, 1770},
    {"quadro-rtx-5000", "Quadro RTX 5000", "sm_75", 48, 16122, 4096, 256, 7001, 1815},
    {"quadro-rtx-4000", "Quadro RTX 4000", "sm_75", 36, 7974, 4096, 256, 6501, 1545},
    {"quadro-gv100", "Quadro GV100", "sm_70", 80, 32510, 6144, 4096, 850, 1627},
    {"quadro-gp100", "Quadro GP100", "sm_60", 56, 16280, 4096, 4096, 715, 1442},
}};

/// Alternative names of models in the table.
struct GpuModelAlias {
  const char* alias;
  const char* key;
};
inline constexpr std::array<GpuModelAlias, 16> kGpuModelAliases{{
    {"h100", "h100-sxm"},
    {"h100-80gb-hbm3", "h100-sxm"},
    {"h100-sxm5", "h100-sxm"},
    {"h200-sxm", "h200"},
    {"gh200-480gb", "gh200"},
    {"gh200-96gb", "gh200"},
    {"a100", "a100-80gb"},
    {"a100-sxm4-80gb", "a100-80gb"},
    {"a100-sxm4-40gb", "a100-40gb"},
    {"a100-80gb-pcie", "a100-pcie-80gb"},
    {"a100-pcie", "a100-pcie-80gb"},
    {"v100", "v100-sxm2-16gb"},
    {"v100-16gb", "v100-sxm2-16gb"},
    {"v100-32gb", "v100-sxm2-32gb"},
    {"p100", "p100-sxm2-16gb"},
    {"gtx-1060-6gb", "gtx-1060"},
}};

/// The device emulated by `--dry-run` without an argument.
inline constexpr const char* kUsualModel = "sm_90";

}  // namespace optrace::emulated
