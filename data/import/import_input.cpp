#include "data/import/import_input.hpp"

#include "cohort/core/error.hpp"
#include "cohort/core/output.hpp"

#include "data/file/file_io.hpp"

#include <fmt/format.h>

#include <zlib.h>
#include <algorithm>
#include <array>
#include <utility>

namespace cohort {

void InputStream::Close::operator()(gzFile_s* file) const noexcept {
    static_cast<void>(::gzclose_r(file));
}

InputStream::InputStream(std::string path)
    : path_(std::move(path)),
      inside_(split_zip_path(path_)),
      watch_(inside_.archive.empty() ? path_ : inside_.archive) {
    if (!inside_.archive.empty()) {
        member_ = std::make_unique<ZipMember>(inside_);
        return;
    }
    packed_.reset(::gzopen(path_.c_str(), "rb"));
    require_file(packed_ != nullptr, path_, "cannot open for reading", "", "");
    static_cast<void>(::gzbuffer(packed_.get(), 1U << 17U));
}

std::size_t InputStream::read_some(std::span<std::byte> bytes) {
    std::size_t done = member_ ? member_->read_some(bytes) : 0;
    while (packed_ && done < bytes.size()) {
        const auto part =
            static_cast<unsigned>(std::min<std::size_t>(bytes.size() - done, 1U << 30U));
        const int got = ::gzread(packed_.get(), bytes.data() + done, part);
        int error = Z_OK;
        const char* reason = ::gzerror(packed_.get(), &error);
        if (got < 0 || (error != Z_OK && error != Z_STREAM_END)) {
            offset_ += done + static_cast<std::size_t>(std::max(got, 0));
            fail_here("the gzip data is truncated or damaged", "", reason);
        }
        if (got == 0) {
            break;
        }
        done += static_cast<std::size_t>(got);
    }
    offset_ += done;
    watch_.check(path_, fmt::format("bytes up to {}", offset_));
    return done;
}

void InputStream::read(std::span<std::byte> bytes, std::string_view what) {
    const std::size_t got = read_some(bytes);
    if (got < bytes.size()) {
        fail_here(fmt::format("the file ends within {}", what),
                  fmt::format("{} bytes", bytes.size()), fmt::format("{}", got));
    }
}

void InputStream::require_end() {
    std::array<std::byte, 1> more{};
    const std::uint64_t end = offset_;
    require_file(read_some(more) == 0, path_, "the file is longer than its header says",
                 fmt::format("{} bytes", end), "more");
}

void InputStream::fail_here(std::string_view what, std::string_view expected,
                            std::string_view got) const {
    const std::string where = fmt::format("{}, byte {}", path_, offset_);
    fail<FileError>({.where = where, .what = what, .expected = expected, .got = got});
}

std::optional<std::string_view> LineReader::next() {
    std::size_t end = buffer_.find('\n', begin_);
    while (end == std::string::npos && !ended_) {
        buffer_.erase(0, begin_);
        begin_ = 0;
        const std::size_t kept = buffer_.size();
        buffer_.resize(kept + (std::size_t{1} << 18U));
        const std::size_t got =
            stream_.read_some(std::as_writable_bytes(std::span(buffer_).subspan(kept)));
        buffer_.resize(kept + got);
        ended_ = got == 0;
        end = buffer_.find('\n', kept);
    }
    if (begin_ == buffer_.size()) {
        return std::nullopt;
    }
    std::string_view text = std::string_view(buffer_).substr(begin_, end - begin_);
    begin_ = end == std::string::npos ? buffer_.size() : end + 1;
    if (text.ends_with('\r')) {
        text.remove_suffix(1);
    }
    ++line_;
    return text;
}

std::string LineReader::where() const {
    return fmt::format("{}:{}", stream_.path(), line_);
}

}  // namespace cohort
