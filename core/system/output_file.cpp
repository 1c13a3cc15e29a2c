#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "cohort/core/output.hpp"

namespace cohort {
namespace {

namespace fs = std::filesystem;

/// The target of links; the path itself when it does not exist.
std::string behind_links(const OutputRequest& request) {
    struct stat facts {};
    const std::string& path = request.path;
    if (::lstat(path.c_str(), &facts) != 0 || !S_ISLNK(facts.st_mode)) {
        return path;
    }
    std::error_code error;
    const fs::path target = fs::canonical(path, error);
    require_file(!error, request.option + " " + path, "cannot be written",
                 "a link to a regular file", "a link that leads nowhere (" + error.message() + ")");
    return target.string();
}

bool begins_with(const std::string& path, const std::string& start) {
    std::ifstream file(path, std::ios::binary);
    std::string bytes(start.size(), '\0');
    file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    return !start.empty() && file && bytes == start;
}

std::string_view kind_of(const struct stat& facts) {
    return S_ISDIR(facts.st_mode)                             ? "an existing folder"
           : S_ISCHR(facts.st_mode) || S_ISBLK(facts.st_mode) ? "a device"
           : S_ISFIFO(facts.st_mode)                          ? "a pipe"
                                                              : "a socket";
}

}  // namespace

void refuse_input(std::string_view option, const std::string& path,
                  const std::vector<std::string>& inputs) {
    struct stat target {};
    if (::stat(path.c_str(), &target) != 0) {
        return;
    }
    for (const std::string& input : inputs) {
        struct stat facts {};
        if (!input.empty() && ::stat(input.c_str(), &facts) == 0 && facts.st_dev == target.st_dev &&
            facts.st_ino == target.st_ino) {
            const std::string where = fmt::format("{} {}", option, path);
            fail<UsageError>({.where = where,
                              .what = "is a file that this command reads",
                              .expected = "another file",
                              .got = input});
        }
    }
}

void fail_holds_already(std::string_view where) {
    fail<UsageError>(
        {.where = where, .what = "holds a file already", .hint = "--overwrite, which replaces it"});
}

OutputFile check_output(const OutputRequest& request) {
    refuse_input(request.option, request.path, request.inputs);
    const std::string where = request.option + " " + request.path;
    OutputFile output(behind_links(request), request.overwrite);
    struct stat facts {};
    if (::stat(output.path.c_str(), &facts) != 0) {
        return output;
    }
    require_file(S_ISREG(facts.st_mode), where, "cannot be written",
                 "the name of a regular file or a new one", kind_of(facts));
    output.replace = output.replace || begins_with(output.path, request.own_start);
    if (!output.replace) {
        fail_holds_already(where);
    }
    return output;
}

void check_folder_of(const OutputFile& file) {
    const std::string parent = fs::path(file.path).parent_path().string();
    const std::string folder = parent.empty() ? "." : parent;
    if (::access(folder.c_str(), W_OK | X_OK) != 0) {
        fail_errno(file.path, "cannot create a file in " + folder, errno);
    }
}

}  // namespace cohort
