#include "cohort/data/text_file.hpp"

#include <cstddef>
#include <span>

#include "file_io.hpp"

namespace cohort {

void replace_text_file(const OutputFile& file, std::string_view text) {
    AtomicFile atomic(file);
    atomic.write_at(0, std::as_bytes(std::span(text)));
    atomic.commit();
}

std::string read_text_file(const std::string& path) {
    const FileDescriptor file = open_readable(path);
    std::string text(file_bytes(file, path), '\0');
    read_at(file, path, 0, std::as_writable_bytes(std::span(text)));
    return text;
}

}  // namespace cohort
