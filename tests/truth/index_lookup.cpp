// index_lookup INDEX: reads mangled names from standard input, one per line. For each, prints the
// `file:line` of its definition, or an empty line. For tests that compare an index with a wheel.

#include <exception>
#include <iostream>
#include <string>

#include "indexer/store/index_store.h"
#include "pytorch/symbols/symbol_key.h"

int main(int argc, char** argv) {
  try {
    if (argc != 2) {
      std::cerr << "usage: index_lookup INDEX\n";
      return 2;
    }
    const optrace::Index index = optrace::Index::open(argv[1]);
    std::ios::sync_with_stdio(false);
    for (std::string name; std::getline(std::cin, name);) {
      if (const auto found = index.find_definition(optrace::canonical_symbol(name))) {
        std::cout << found->location.file << ':' << found->location.line;
      }
      std::cout << '\n';
    }
    return 0;
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 3;
  }
}
