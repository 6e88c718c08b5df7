#pragma once

#include <filesystem>
#include <utility>

#include "indexer/store/index_store.h"
#include "indexer/store/index_writer.h"
#include "platform/files/private_folder.h"

namespace optrace::test {

/// The file of an index, which is removed when this is destroyed.
class IndexFile {
 public:
  explicit IndexFile(IndexContents contents) { write_index(std::move(contents), path()); }
  Index open() const { return Index::open(path()); }

 private:
  std::filesystem::path path() const { return folder_.path() / "torch-2.6.0.index"; }

  PrivateFolder folder_;
};

}  // namespace optrace::test
