#include "data/file/text_file.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

#include "cohort/core/error.hpp"
#include "core/units.hpp"
#include "data/file/file_io.hpp"

namespace cohort {
namespace {

constexpr std::uint64_t kMostTextBytes = std::uint64_t{1} << 30;

}  // namespace

void replace_text_file(const OutputFile& file, std::string_view text, FileLife life) {
    AtomicFile atomic(file);
    atomic.write_at(0, std::as_bytes(std::span(text)));
    atomic.commit(life);
}

std::string read_text_file(const std::string& path) {
    const FileDescriptor file = open_readable(path);
    const std::uint64_t bytes = file_bytes(file, path);
    require_file(bytes <= kMostTextBytes, path, "too long for a text that is read as a whole",
                 "at most " + format_bytes(kMostTextBytes), format_bytes(bytes));
    std::string text(bytes, '\0');
    read_at(file, path, 0, std::as_writable_bytes(std::span(text)));
    return text;
}

}  // namespace cohort
