#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "data/file/file_io.hpp"
#include "data/import/zip_member.hpp"

struct gzFile_s;  // of zlib

namespace cohort {

/// A file read from front to back, plain, gzip (found by its first bytes) or in an archive (see
/// ZipPath). Every error is a FileError naming the file and the offset in the (unpacked) data.
class InputStream {
public:
    explicit InputStream(std::string path);

    [[nodiscard]] const std::string& path() const noexcept { return path_; }
    [[nodiscard]] std::uint64_t offset() const noexcept { return offset_; }
    /// Reads up to bytes.size() bytes; fewer only at the end.
    [[nodiscard]] std::size_t read_some(std::span<std::byte> bytes);
    /// Reads all of `bytes`; `what` names them when the file ends before.
    void read(std::span<std::byte> bytes, std::string_view what);
    /// FileError unless everything has been read.
    void require_end();
    [[noreturn]] void fail_here(std::string_view what, std::string_view expected,
                                std::string_view got) const;

private:
    struct Close {
        void operator()(gzFile_s* file) const noexcept;
    };
    std::string path_;
    ZipPath inside_;
    FileWatch watch_;
    std::unique_ptr<gzFile_s, Close> packed_;  ///< of a file outside archives
    std::unique_ptr<ZipMember> member_;        ///< of one in an archive
    std::uint64_t offset_ = 0;
};

/// The lines of a text file, without their ends (LF or CRLF).
class LineReader {
public:
    explicit LineReader(const std::string& path) : stream_(path) {}
    /// The next line, valid until the next call; nothing at the end.
    [[nodiscard]] std::optional<std::string_view> next();
    /// Number of the line that next() gave, from 1.
    [[nodiscard]] std::int64_t line() const noexcept { return line_; }
    /// `file:line`
    [[nodiscard]] std::string where() const;

private:
    InputStream stream_;
    std::string buffer_;
    std::size_t begin_ = 0;
    bool ended_ = false;
    std::int64_t line_ = 0;
};

}  // namespace cohort
