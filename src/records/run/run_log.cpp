#include "records/run/run_log.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "cohort/core/error.hpp"
#include "data/file/file_io.hpp"
#include "records/run/run_line.hpp"

namespace cohort {
namespace {

constexpr std::size_t kChunkBytes = std::size_t{1} << 20;

[[noreturn]] void refuse_line(const std::string& where, std::string_view reason) {
    fail<FileError>({.where = where,
                     .what = "not a line that cohort train writes",
                     .got = reason,
                     .hint = "a folder that cohort train has written"});
}

}  // namespace

RunLogReader::RunLogReader(std::string file)
    : file_(std::move(file)), parser_(std::make_unique<RunLineParser>()) {
}

RunLogReader::~RunLogReader() = default;

std::string RunLogReader::where() const {
    return fmt::format("{}, line {}{}", file_, line_, skipped_ ? " of those read" : "");
}

void RunLogReader::take_line(std::size_t begin, std::size_t end, RunLogVisitor& visitor) {
    ++line_;
    if (const std::string fault = parser_->take(pending_, begin, end, visitor); !fault.empty()) {
        refuse_line(where(), fault);
    }
}

void RunLogReader::feed(std::string_view bytes, RunLogVisitor& visitor) {
    std::size_t searched = pending_.size();
    pending_ += bytes;
    std::size_t begin = 0;
    try {
        for (std::size_t end = pending_.find('\n', searched); end != std::string::npos;
             end = pending_.find('\n', begin)) {
            const std::size_t line = std::exchange(begin, end + 1);
            take_line(line, end, visitor);
        }
    } catch (...) {
        pending_.erase(0, begin);  // a line that was refused is not part of the next one
        throw;
    }
    pending_.erase(0, begin);
    if (pending_.size() > kMostLineBytes) {
        ++line_;
        refuse_line(where(),
                    fmt::format("more than {} MiB without a line end", kMostLineBytes >> 20U));
    }
}

bool RunLogReader::finish(RunLogVisitor& visitor) {
    const bool whole = pending_.empty() || parser_->is_whole(pending_);
    if (whole && !pending_.empty()) {
        take_line(0, pending_.size(), visitor);
    }
    pending_.clear();
    return whole;
}

bool RunLogReader::read_file(RunLogVisitor& visitor) {
    const FileDescriptor file = open_readable(file_);
    const std::uint64_t bytes = file_bytes(file, file_);
    std::string chunk;
    for (std::uint64_t at = 0; at < bytes; at += chunk.size()) {
        chunk.resize(static_cast<std::size_t>(std::min<std::uint64_t>(kChunkBytes, bytes - at)));
        read_at(file, file_, at, std::as_writable_bytes(std::span(chunk)));
        feed(chunk, visitor);
    }
    return finish(visitor);
}

}  // namespace cohort
