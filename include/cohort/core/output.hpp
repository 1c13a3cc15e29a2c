#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cohort/core/error.hpp"

// Where the program may write, and what stays untouched there. Two kinds of names:
// 1. A file that a command was asked for by name (--output, --svg ...): check_output(). Links are
//    followed, to regular files only.
// 2. A file in an output folder, which others may write into as well: OutputFolder and
//    open_in_place(). Links are never followed.
namespace cohort {

/// There is no room: the disk or the user's share of it is full.
struct DiskFullError : FileError {
    explicit DiskFullError(const std::string& message) : FileError(message) {}
};

/// Throws FileError, or DiskFullError: `[where] what; got <text of errno>`.
[[noreturn]] void fail_errno(std::string_view where, std::string_view what, int error);

/// What is asked of a folder before anything is written into it.
enum class FolderRule {
    kAny,     ///< its user has named it
    kOwn,     ///< it is trusted(), or the file system gives all files the same owner
    kOwnReal  ///< kOwn, and no link
};

/// What the owner of a folder is judged by.
struct FolderFacts {
    uid_t owner = 0;
    mode_t mode = 0;
    uid_t user = 0;             ///< of this process
    std::optional<uid_t> sudo;  ///< who has become root with sudo
};

/// The folder is the user's or root's. Root may also write into the folder of the one who called
/// sudo, and into anybody's that only its owner can write into.
[[nodiscard]] bool trusted(const FolderFacts& facts) noexcept;

/// A folder that is held open: its files are reached whatever its path names later.
class OutputFolder {
public:
    /// @param where  for messages; empty: the path
    /// Errors: FileError with the reason when it is missing or breaks the rule.
    OutputFolder(const std::string& path, FolderRule rule, std::string_view where = {});
    OutputFolder(OutputFolder&& other) noexcept;
    OutputFolder& operator=(OutputFolder&&) = delete;
    ~OutputFolder();

    /// For the calls of the openat family; reads nothing itself.
    [[nodiscard]] int get() const noexcept { return folder_; }
    /// Deletes a file or a link of the folder; one that is gone is as good. Returns 0 or errno.
    [[nodiscard]] int remove(const std::string& name) const noexcept;
    /// Renames within the folder. Returns 0 or errno.
    [[nodiscard]] int rename(const std::string& from, const std::string& to) const noexcept;

private:
    std::string path_;
    int folder_ = -1;  ///< negative once moved from
};

/// What can be known of an output folder without touching it: that it is kOwn and can be written,
/// or can be made; that none of these names in it is a link, and that those of files are regular
/// files. Errors: FileError.
void check_output_folder(const std::string& path, const std::vector<std::string>& files,
                         const std::vector<std::string>& folders);

/// Makes a folder unless it is there, then checks it. Errors: FileError.
void make_own_folder(const std::string& path, FolderRule rule);

/// Opens a file of an output folder to change it where it is: a regular file with no other name,
/// and not through a link. Returns its descriptor, or -1 and errno: ELOOP for a link, EMLINK for a
/// file with other names (hard links), ENXIO for no regular file. @param flags  of open(2)
[[nodiscard]] int open_in_place(const char* path, int flags) noexcept;
/// The same. Errors: FileError with the reason.
[[nodiscard]] int open_in_place_or_fail(const std::string& path, int flags);

/// Errors: FileError when it is a link or no regular file; nothing when there is none.
void require_no_link(const std::string& path);

/// A file to write. Made from a path alone: a file in an output folder, which replaces what the
/// program wrote there before; a link of that name is replaced, not followed.
struct OutputFile {
    OutputFile(std::string name) : path(std::move(name)) {}  // NOLINT: a path is one
    OutputFile(const char* name) : path(name) {}             // NOLINT
    OutputFile(std::string name, bool may_replace, FolderRule rule = FolderRule::kAny)
        : path(std::move(name)), replace(may_replace), folder(rule) {}

    std::string path;
    bool replace = true;  ///< a regular file of that name
    FolderRule folder = FolderRule::kAny;
};

/// A file that a command was asked to write.
struct OutputRequest {
    std::string option;  ///< that names it, with dashes
    std::string path;
    bool overwrite = false;
    std::vector<std::string> inputs{};  ///< files that the command reads; empty ones do not count
    std::string own_start{};  ///< first bytes of what the same command writes: it is replaced
};

/// The file to write: the path, or the regular file that it leads to through links.
/// Errors: UsageError when it is one of the inputs, under whatever name, or holds something else
/// already and `overwrite` is not set; FileError when it is no regular file, or a link that leads
/// nowhere.
[[nodiscard]] OutputFile check_output(const OutputRequest& request);

/// Errors: UsageError when the path is one of the inputs, under whatever name.
void refuse_input(std::string_view option, const std::string& path,
                  const std::vector<std::string>& inputs);

/// Errors: FileError when no file can be made in the folder of this one.
void check_folder_of(const OutputFile& file);

/// Fails as a file that is there and must not be replaced does.
[[noreturn]] void fail_holds_already(std::string_view where);

}  // namespace cohort
