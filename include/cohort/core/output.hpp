#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cohort/core/error.hpp"
#include "cohort/core/file_descriptor.hpp"

// Rules for writing files, so that nothing else is overwritten. Two kinds of names:
// 1. A file that an option names (--output, --svg ...): check_output(). Links are followed, to
// regular files only.
// 2. A file in an output folder, which others may write into as well: OutputFolder and
// open_in_place(). Links are never followed.
namespace cohort {

/// The disk, or the user's quota on it, is full.
struct DiskFullError : FileError {
    explicit DiskFullError(const std::string& message) : FileError(message) {}
};

/// Throws FileError, or DiskFullError: `[where] what; got <text of errno>`.
[[noreturn]] void fail_errno(std::string_view where, std::string_view what, int error);

/// Throws FileError with these parts of its message unless `holds`.
inline void require_file(bool holds, std::string_view where, std::string_view what,
                         std::string_view expected, std::string_view got,
                         std::string_view hint = {}) {
    if (!holds) {
        fail<FileError>(
            {.where = where, .what = what, .expected = expected, .got = got, .hint = hint});
    }
}

/// Requirements on a folder before anything is written into it.
enum class FolderRule {
    kAny,     ///< none: the user has named the folder
    kOwn,     ///< the folder is trusted(), or the file system gives all files the same owner
    kOwnReal  ///< kOwn, and no link
};

/// Facts by which the owner of a folder is judged.
struct FolderFacts {
    uid_t owner = 0;
    mode_t mode = 0;
    uid_t user = 0;             ///< user of this process
    std::optional<uid_t> sudo;  ///< user who became root with sudo
};

/// Whether the folder is the user's or root's. Root may also write into folders of the user who
/// called sudo, and into folders that only their owner can write into.
[[nodiscard]] bool trusted(const FolderFacts& facts) noexcept;

/// A folder that is held open: its files stay reachable when its path leads elsewhere later.
class OutputFolder {
public:
    /// @param where  for messages; empty: the path
    /// Errors: FileError with the reason when it is missing or breaks the rule.
    OutputFolder(const std::string& path, FolderRule rule, std::string_view where = {});

    /// For the calls of the openat family; reads nothing itself.
    [[nodiscard]] int get() const noexcept { return folder_.get(); }
    /// Deletes a file or a link of the folder; success also when it does not exist. Returns 0 or
    /// errno.
    [[nodiscard]] int remove(const std::string& name) const noexcept;
    /// Renames within the folder. Returns 0 or errno.
    [[nodiscard]] int rename(const std::string& from, const std::string& to) const noexcept;

private:
    FileDescriptor folder_;
};

/// Checks an output folder without changing it: it is kOwn and writable, or can be made; none of
/// the given names in it is a link, and the names of files are regular files. Errors: FileError.
void check_output_folder(const std::string& path, const std::vector<std::string>& files,
                         const std::vector<std::string>& folders);

/// Makes a folder unless it exists, then checks it. Errors: FileError.
void make_own_folder(const std::string& path, FolderRule rule);

/// Opens a file of an output folder to write it in place: a regular file with no other name, and
/// not through a link. Returns its descriptor, or -1 and errno: ELOOP for a link, EMLINK for a file
/// with other names (hard links), ENXIO for no regular file. @param flags  of open(2)
[[nodiscard]] int open_in_place(const char* path, int flags) noexcept;
/// As open_in_place(). Errors: FileError with the reason.
[[nodiscard]] int open_in_place_or_fail(const std::string& path, int flags);

/// Writes all of a text to an open file. Returns 0, or the number of the error.
[[nodiscard]] int write_all(int file, std::string_view text) noexcept;

/// Errors: FileError when the path is a link or no regular file; a missing file is no error.
void require_no_link(const std::string& path);

/// A file to write. Made from a path alone: a file in an output folder, which replaces an older
/// file of that name; a link of that name is replaced, not followed.
struct OutputFile {
    OutputFile(std::string name) : path(std::move(name)) {}  // NOLINT: a path is one
    OutputFile(const char* name) : path(name) {}             // NOLINT
    OutputFile(std::string name, bool may_replace, FolderRule rule = FolderRule::kAny)
        : path(std::move(name)), replace(may_replace), folder(rule) {}

    std::string path;
    bool replace = true;  ///< an existing regular file of that name is replaced
    FolderRule folder = FolderRule::kAny;
};

/// A file that an option of a command names for writing.
struct OutputRequest {
    std::string option;  ///< option that names the file, with dashes
    std::string path;
    bool overwrite = false;
    std::vector<std::string> inputs{};  ///< files that the command reads; empty names are ignored
    std::string own_start{};  ///< first bytes of the command's own output; a file that begins so is
                              ///< replaced
};

/// The file to write: the path, or the regular file that it leads to through links.
/// Errors: UsageError when it is one of the inputs, under any name, or when the file exists and
/// `overwrite` is not set; FileError when it is no regular file, or a link that leads nowhere.
[[nodiscard]] OutputFile check_output(const OutputRequest& request);

/// Errors: UsageError when the path is one of the inputs, under any name.
void refuse_input(std::string_view option, const std::string& path,
                  const std::vector<std::string>& inputs);

/// Errors: FileError when no file can be made in this file's folder.
void check_folder_of(const OutputFile& file);

/// Throws the error for an existing file that must not be replaced.
[[noreturn]] void fail_holds_already(std::string_view where);

}  // namespace cohort
