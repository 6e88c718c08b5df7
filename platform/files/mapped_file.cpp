#include "platform/files/mapped_file.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <mutex>
#include <utility>

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "platform/error.h"
#include "platform/files/private_folder.h"

namespace optrace {
namespace {

constexpr std::uintptr_t kPage = 4096;
constexpr std::size_t kBlock = std::size_t{64} << 10;

/// A mapping that the signal handler looks up. The handler can't take locks: the table has a fixed
/// size.
struct Guarded {
  std::atomic<std::uintptr_t> begin = 0;  ///< 0: free.
  std::atomic<std::uintptr_t> end = 0;
  std::atomic<bool> cut = false;
};
constexpr std::size_t kMaxGuarded = 4096;
std::array<Guarded, kMaxGuarded> guarded;
std::atomic<std::size_t> guarded_count = 0;  ///< Later entries were never used.
std::mutex guarded_mutex;                    ///< Held to take or free an entry.
struct sigaction unguarded{};                ///< The action without a TruncationGuard.

/// Returns the index in the table, plus 1; 0 if the table is full.
std::size_t add_guarded(std::span<const std::byte> bytes) {
  const std::scoped_lock lock(guarded_mutex);
  const auto free = std::ranges::find_if(guarded, [](const Guarded& entry) {
    return entry.begin.load(std::memory_order_relaxed) == 0;
  });
  if (free == guarded.end()) return 0;
  const auto begin = reinterpret_cast<std::uintptr_t>(bytes.data());
  free->cut = false;
  free->end = begin + bytes.size();
  free->begin = begin;
  const auto place = static_cast<std::size_t>(free - guarded.begin()) + 1;
  guarded_count = std::max(guarded_count.load(), place);
  return place;
}

void remove_guarded(std::size_t place) {
  if (place == 0) return;
  const std::scoped_lock lock(guarded_mutex);
  guarded[place - 1].begin = 0;
}

/// Maps zeros in place of the page that the file no longer has, and of all pages after it.
extern "C" void show_zeros(int /*signal*/, siginfo_t* information, void* /*context*/) {
  const int error = errno;
  const auto address = reinterpret_cast<std::uintptr_t>(information->si_addr);
  const std::size_t count = guarded_count;
  for (std::size_t i = 0; i < count; ++i) {
    Guarded& entry = guarded[i];
    const std::uintptr_t begin = entry.begin;
    if (begin == 0 || address < begin || address >= entry.end) continue;
    const std::uintptr_t page = address & ~(kPage - 1);
    // NOLINTNEXTLINE(performance-no-int-to-ptr)
    void* const zeros = ::mmap(reinterpret_cast<void*>(page), entry.end - page, PROT_READ,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    if (zeros == MAP_FAILED) break;
    entry.cut = true;
    errno = error;
    return;
  }
  ::sigaction(SIGBUS, &unguarded, nullptr);  // The signal occurs again at once.
}

[[noreturn]] void fail(const std::filesystem::path& path, const std::string& reason) {
  throw Error(ExitStatus::usage, fmt::format("cannot read {}: {}", path.string(), reason),
              "Give the path of a readable, non-empty regular file.");
}

// O_NONBLOCK: opening a pipe must not wait for a writer. Files that are not regular are refused
// later.
Descriptor open_file(const std::filesystem::path& path) {
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file) fail(path, describe_errno(errno));
  return file;
}

}  // namespace

TruncationGuard::TruncationGuard() {
  struct sigaction action{};
  action.sa_sigaction = show_zeros;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  ::sigaction(SIGBUS, &action, &previous_);
  unguarded = previous_;
}

TruncationGuard::~TruncationGuard() {
  ::sigaction(SIGBUS, &previous_, nullptr);
}

MappedFile::MappedFile(const std::filesystem::path& path, Trust trust)
    : MappedFile(open_file(path), path, trust) {}

MappedFile::MappedFile(Descriptor file, std::filesystem::path path, Trust trust)
    : path_(std::move(path)) {
  struct stat status{};
  if (!file || ::fstat(file.get(), &status) != 0) fail(path_, describe_errno(errno));
  if (!S_ISREG(status.st_mode) || status.st_size == 0)
    fail(path_, S_ISREG(status.st_mode) ? "it is empty" : "it is not a regular file");
  const auto size = static_cast<std::size_t>(status.st_size);
  if (trust == Trust::by_owner && is_our_user(status.st_uid))
    map(file, size);
  else
    prepare_reading(std::move(file), size);
}

void MappedFile::map(const Descriptor& file, std::size_t size) {
  void* const address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (address == MAP_FAILED) fail(path_, describe_errno(errno));
  bytes_ = {static_cast<const std::byte*>(address), size};
  guarded_ = add_guarded(bytes_);
}

// Takes memory only for parts that are read and that the file has on disk.
void MappedFile::prepare_reading(Descriptor file, std::size_t size) {
  void* const address = ::mmap(nullptr, size, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (address == MAP_FAILED) fail(path_, describe_errno(errno));
  bytes_ = {static_cast<const std::byte*>(address), size};
  reading_ = std::make_unique<Reading>();
  reading_->file = std::move(file);
  reading_->blocks.resize((size - 1) / kBlock + 1);
}

MappedFile::~MappedFile() {
  remove_guarded(guarded_);
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

std::span<const std::byte> MappedFile::reserve(std::uint64_t offset, std::uint64_t size) const {
  if (offset > bytes_.size() || bytes_.size() - offset < size) return {};
  return bytes_.subspan(offset, size);
}

std::span<const std::byte> MappedFile::part(std::uint64_t offset, std::uint64_t size) const {
  return load(reserve(offset, size));
}

std::span<const std::byte> MappedFile::load(std::span<const std::byte> reserved) const {
  if (!reading_ || reading_->blocks.empty() || reserved.empty()) return reserved;
  const auto begin = static_cast<std::size_t>(reserved.data() - bytes_.data());
  const std::size_t last = (begin + reserved.size() - 1) / kBlock;
  for (std::size_t block = begin / kBlock; block <= last; ++block)
    if (!reading_->blocks[block]) read_block(block);
  if (reserved.size() == bytes_.size()) reading_->blocks.clear();  // The whole file was read.
  return reserved;
}

void MappedFile::read_block(std::size_t block) const {
  const int file = reading_->file.get();
  const std::size_t end = std::min((block + 1) * kBlock, bytes_.size());
  std::size_t at = block * kBlock;
  reading_->blocks[block] = true;
  while (at < end) {
    // A hole is not read, so that it takes no memory either.
    const off_t data = ::lseek(file, static_cast<off_t>(at), SEEK_DATA);
    if (data < 0 && errno == ENXIO) {
      struct stat status{};
      if (::fstat(file, &status) != 0 || static_cast<std::size_t>(status.st_size) < end)
        reading_->cut = true;
      return;
    }
    at = std::max(at, static_cast<std::size_t>(std::max<off_t>(data, 0)));
    if (at >= end) return;
    const ssize_t size =
        ::pread(file, const_cast<std::byte*>(bytes_.data()) + at, end - at, static_cast<off_t>(at));
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) {
      reading_->cut = true;
      return;
    }
    at += static_cast<std::size_t>(size);
  }
}

bool MappedFile::was_cut() const noexcept {
  return reading_ ? reading_->cut : guarded_ != 0 && guarded[guarded_ - 1].cut;
}

void MappedFile::release_pages() const noexcept {
  // Parts that were read are not read again, and zeros can't be distinguished from a file's pages.
  if (reading_ || was_cut()) return;
  ::madvise(const_cast<std::byte*>(bytes_.data()), bytes_.size(), MADV_DONTNEED);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : bytes_(std::exchange(other.bytes_, {})),
      path_(std::move(other.path_)),
      guarded_(std::exchange(other.guarded_, 0)),
      reading_(std::move(other.reading_)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  std::swap(path_, other.path_);
  std::swap(guarded_, other.guarded_);
  std::swap(reading_, other.reading_);
  return *this;
}

}  // namespace optrace
