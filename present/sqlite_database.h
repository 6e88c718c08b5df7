#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <variant>

#include "platform/files/output_sink.h"

struct sqlite3;
struct sqlite3_stmt;

namespace optrace {

/// A value of a column. monostate is NULL.
using SqliteValue = std::variant<std::monostate, std::int64_t, std::string>;

/// A SQLite database in memory. All members throw Error(failed) if SQLite refuses, for lack of
/// memory.
class SqliteDatabase {
 public:
  SqliteDatabase();

  /// Executes statements. `sql` must be a constant: values belong into an SqliteInsert.
  void execute(const char* sql);

  /// Writes the bytes of the database's file.
  void write_to(OutputSink& sink) const;

 private:
  friend class SqliteInsert;
  [[noreturn]] void fail() const;
  void require(bool succeeded) const {
    if (!succeeded) fail();
  }

  struct Close {
    void operator()(sqlite3* database) const;
  };
  std::unique_ptr<sqlite3, Close> database_;
};

/// Adds rows to a table. Values are bound as parameters and are never part of SQL.
class SqliteInsert {
 public:
  /// The table, whose name must be a constant, has `columns` columns. The database must outlive
  /// this object. Throws Error(failed).
  SqliteInsert(SqliteDatabase& database, const char* table, std::size_t columns);

  /// Adds a row with a value for each column. Throws Error(failed).
  void add(std::initializer_list<SqliteValue> row);

 private:
  void bind(int position, const SqliteValue& value);

  struct Finalize {
    void operator()(sqlite3_stmt* statement) const;
  };
  SqliteDatabase& database_;
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
};

}  // namespace optrace
