#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cohort/core/clock.hpp"

namespace cohort {

/// Longest request or token, bytes.
inline constexpr std::size_t kControlBytes = 4096;
/// Longest answer.
inline constexpr std::size_t kReplyBytes = std::size_t{1} << 20;

/// The folder OUT/ctl: small files, written and read as a whole. Keeps the checked folder open,
/// even if its path leads elsewhere later.
class ControlFolder {
public:
    enum class Make { kNo, kYes };
    /// Opens, or makes with mode 0700, the folder. Errors: FileError when it is missing, is a link,
    /// belongs to another user, or others may write into it.
    ControlFolder(const std::string& path, Make make);
    ControlFolder(ControlFolder&& other) noexcept;
    ControlFolder& operator=(ControlFolder&&) = delete;
    ~ControlFolder();

    /// Result of reading a file.
    struct Content {
        std::string text;
        std::string refused;  ///< why it cannot be used; then `text` is empty
    };
    /// Reads a regular file of this process's own user, of `limit` bytes at most; none when it does
    /// not exist. Never follows links and never blocks.
    [[nodiscard]] std::optional<Content> read(const std::string& name, std::size_t limit) const;
    /// Writes a file under a temporary name and renames it. Errors: FileError.
    void put(const std::string& name, std::string_view text) const;
    /// Removes a file. False when it does not exist, or is a folder that is not empty.
    bool remove(const std::string& name) const noexcept;
    /// Names that begin with `prefix`, `most` of them at most.
    [[nodiscard]] std::vector<std::string> list(std::string_view prefix, std::size_t most) const;
    [[nodiscard]] const std::string& path() const noexcept { return path_; }

private:
    std::string path_;
    int folder_ = -1;
};

/// 32 random hexadecimal digits.
[[nodiscard]] std::string random_token();

/// A running job's answer to a request.
struct ControlReply {
    bool accepted = false;
    std::string text;  ///< for people; several lines for "status"
};

/// Sends a request to the job that writes into folder `out`: "mode static:4", "status" or "stop".
/// Request and answer are files in OUT/ctl, so this works from any machine that shares the file
/// system; only the job's owner can write there. Blocks until the answer has been written. Errors:
/// UsageError for a malformed request; FileError when no job listens there or the folder cannot be
/// used; PeerError when no answer came within `limit` (the request is withdrawn).
[[nodiscard]] ControlReply ask_job(const std::string& out, const std::string& request,
                                   Clock::Seconds limit);

}  // namespace cohort
