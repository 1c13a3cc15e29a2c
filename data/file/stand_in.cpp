#include "data/file/stand_in.hpp"

#include <unistd.h>
#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

#include "cohort/core/error.hpp"

namespace cohort {

namespace {

/// How such a file begins, in lower case, and what it is.
struct StandIn {
    std::string_view start;
    std::string_view what;
    std::string_view hint;
    bool page = false;  ///< may also be what the user means
};

constexpr std::string_view kFetchFile =
    "fetching the file itself: the address that was asked leads to a page about it";

constexpr std::array kStandIns = std::to_array<StandIn>({
    {"version https://git-lfs.github.com/spec/", "a Git LFS pointer", "git lfs pull"},
    {"version https://hawser.github.com/spec/", "a Git LFS pointer", "git lfs pull"},
    {"/annex/objects/", "a git-annex pointer", "git annex get"},
    {"<!doctype html", "a web page", kFetchFile, true},
    {"<html", "a web page", kFetchFile, true},
    {"<?xml", "an XML document", kFetchFile, true},
});

std::string lower(std::string_view text) {
    std::string result(text);
    std::ranges::transform(result, result.begin(),
                           [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return result;
}

/// The first bytes without blanks and byte-order mark. What cannot be read is left to the reader.
std::string start_of(const FileDescriptor& file) {
    constexpr std::size_t kBytes = 256;
    std::string start(kBytes, '\0');
    const ssize_t got = ::pread(file.get(), start.data(), start.size(), 0);
    start.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (start.starts_with("\xEF\xBB\xBF")) {
        start.erase(0, 3);
    }
    start.erase(0, std::min(start.find_first_not_of(" \t\r\n"), start.size()));
    return lower(start);
}

bool named_page(const std::string& path) {
    const std::string name = lower(path);
    return std::ranges::any_of(std::to_array<std::string_view>({".html", ".htm", ".xhtml", ".xml"}),
                               [&](std::string_view ending) { return name.ends_with(ending); });
}

}  // namespace

void check_no_stand_in(const FileDescriptor& file, const std::string& path) {
    const std::string start = start_of(file);
    const auto* found = std::ranges::find_if(
        kStandIns, [&](const StandIn& one) { return start.starts_with(one.start); });
    if (found != kStandIns.end() && !(found->page && named_page(path))) {
        fail<FileError>({.where = path,
                         .what = std::string(found->what) + " lies in place of the file",
                         .hint = found->hint});
    }
}

}  // namespace cohort
