#include "present/sqlite_database.h"

#include <cstddef>
#include <limits>

#include <fmt/core.h>
#include <sqlite3.h>

#include "platform/error.h"

namespace optrace {

void SqliteDatabase::Close::operator()(sqlite3* database) const {
  sqlite3_close(database);
}

SqliteDatabase::SqliteDatabase() {
  // A file in memory. The content of a `:memory:` database could only be written from a copy.
  constexpr const char* kName = "file:report?vfs=memdb";
  sqlite3* opened = nullptr;
  const int result = sqlite3_open_v2(
      kName, &opened, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_URI, nullptr);
  database_.reset(opened);
  require(result == SQLITE_OK);
  sqlite3_int64 max_size = std::numeric_limits<sqlite3_int64>::max();
  require(sqlite3_file_control(opened, "main", SQLITE_FCNTL_SIZE_LIMIT, &max_size) == SQLITE_OK);
  // Nothing is ever rolled back.
  execute("PRAGMA journal_mode = OFF");
}

void SqliteDatabase::fail() const {
  throw Error(ExitStatus::failed,
              fmt::format("the database could not be made: {}", sqlite3_errmsg(database_.get())),
              "Free some memory, or report a smaller trace.");
}

void SqliteDatabase::execute(const char* sql) {
  require(sqlite3_exec(database_.get(), sql, nullptr, nullptr, nullptr) == SQLITE_OK);
}

void SqliteDatabase::write_to(OutputSink& sink) const {
  sqlite3_int64 size = 0;
  const unsigned char* const content =
      sqlite3_serialize(database_.get(), "main", &size, SQLITE_SERIALIZE_NOCOPY);
  require(content != nullptr);
  sink.write({reinterpret_cast<const char*>(content), static_cast<std::size_t>(size)});
}

void SqliteInsert::Finalize::operator()(sqlite3_stmt* statement) const {
  sqlite3_finalize(statement);
}

SqliteInsert::SqliteInsert(SqliteDatabase& database, const char* table, std::size_t columns)
    : database_(database) {
  std::string sql = fmt::format("INSERT INTO {} VALUES (?", table);
  for (std::size_t i = 1; i < columns; ++i) sql += ", ?";
  sql += ')';
  sqlite3_stmt* prepared = nullptr;
  const int result =
      sqlite3_prepare_v2(database_.database_.get(), sql.c_str(), -1, &prepared, nullptr);
  statement_.reset(prepared);
  database_.require(result == SQLITE_OK);
}

void SqliteInsert::bind(int position, const SqliteValue& value) {
  int result = SQLITE_OK;
  if (const auto* const text = std::get_if<std::string>(&value))
    result = sqlite3_bind_text64(statement_.get(), position, text->data(), text->size(),
                                 SQLITE_STATIC, SQLITE_UTF8);
  else if (const auto* const number = std::get_if<std::int64_t>(&value))
    result = sqlite3_bind_int64(statement_.get(), position, *number);
  else
    result = sqlite3_bind_null(statement_.get(), position);
  database_.require(result == SQLITE_OK);
}

void SqliteInsert::add(std::initializer_list<SqliteValue> row) {
  int position = 0;
  for (const SqliteValue& value : row) bind(++position, value);
  const bool stepped = sqlite3_step(statement_.get()) == SQLITE_DONE;
  const bool reset = sqlite3_reset(statement_.get()) == SQLITE_OK;
  database_.require(stepped && reset);
}

}  // namespace optrace
