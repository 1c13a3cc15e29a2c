#include "train/run/control.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <random>
#include <string_view>
#include <thread>
#include <utility>

#include "cohort/core/error.hpp"
#include "cohort/core/output.hpp"
#include "train/run/run_folder.hpp"

namespace cohort {
namespace {

constexpr mode_t kOwnerOnly = 0700;

[[noreturn]] void refuse_file(const std::string& path, std::string_view what,
                              std::string_view got) {
    fail<FileError>({.where = path, .what = what, .got = got});
}

int open_folder(const std::string& path, ControlFolder::Make make) {
    if (make == ControlFolder::Make::kYes && ::mkdir(path.c_str(), kOwnerOnly) != 0 &&
        errno != EEXIST) {
        refuse_file(path, "the folder cannot be made", errno_text(errno));
    }
    const int folder = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder < 0) {
        if (errno == ENOENT) {
            fail<FileError>({.where = path,
                             .what = "no job listens there",
                             .hint = "the --out of a job that is running"});
        }
        refuse_file(path, "the folder cannot be opened", errno_text(errno));
    }
    struct stat facts {};
    const bool known = ::fstat(folder, &facts) == 0;
    if (!known || facts.st_uid != ::geteuid() || (facts.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
        ::close(folder);
        refuse_file(path, "requests there could be another user's",
                    fmt::format("owner {}, mode {:o}", facts.st_uid, facts.st_mode & 07777U));
    }
    return folder;
}

/// All of an open file that has no more than `limit` bytes.
ControlFolder::Content read_all(int file, std::size_t limit) {
    std::string text(limit + 1, '\0');
    std::size_t size = 0;
    while (size < text.size()) {
        const ssize_t got = ::read(file, text.data() + size, text.size() - size);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return {.text = "", .refused = errno_text(errno)};
        }
        if (got == 0) {
            text.resize(size);
            return {.text = std::move(text), .refused = ""};
        }
        size += static_cast<std::size_t>(got);
    }
    return {.text = "", .refused = fmt::format("longer than {} bytes", limit)};
}

constexpr Clock::Seconds kPoll{0.05};

void check_request(const std::string& request) {
    const auto is_word_after = [&request](std::string_view begin) {
        return request.starts_with(begin) && request.size() > begin.size() &&
               request.find_first_not_of(
                   "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVW"
                   "XYZ0123456789:.,+-_@",
                   begin.size()) == std::string::npos;
    };
    const bool known = request == "status" || request == "status json" || request == "stop" ||
                       request == "servers" || is_word_after("mode ") || is_word_after("servers ");
    if (!known || request.size() > kControlBytes / 2) {
        fail<UsageError>({.where = "cohort ctl",
                          .what = "there is no such request",
                          .expected = "mode MODE, status, servers or stop",
                          .got = "'" + request + "'"});
    }
}

std::string first_line(const std::string& text) {
    return text.substr(0, text.find('\n'));
}

/// The token of the job that listens in a folder.
std::string token_of(const ControlFolder& folder) {
    const auto content = folder.read("run", kControlBytes);
    if (!content) {
        fail<FileError>({.where = folder.path(),
                         .what = "no job listens there",
                         .hint = "the --out of a job that is running"});
    }
    if (!content->refused.empty()) {
        fail<FileError>({.where = folder.path() + "/run",
                         .what = "cannot be trusted",
                         .got = content->refused});
    }
    return first_line(content->text);
}

[[noreturn]] void give_up(const ControlFolder& folder, const std::string& request, bool over,
                          Clock::Seconds limit) {
    const bool withdrawn = folder.remove(request);
    fail<PeerError>({.where = folder.path(),
                     .what = over ? std::string("the job ended without an answer")
                                  : fmt::format("no answer within {:.0f} s", limit.count()),
                     .got = withdrawn ? "the request was not taken and is withdrawn" : "",
                     .hint = over ? "" : "is the job still running?"});
}

ControlReply parse_reply(const std::string& text) {
    const std::size_t line = text.find('\n');
    return {.accepted = text.substr(0, line) == "accepted",
            .text = line == std::string::npos ? "" : text.substr(line + 1)};
}

}  // namespace

ControlFolder::ControlFolder(const std::string& path, Make make)
    : path_(path), folder_(open_folder(path, make)) {
}

ControlFolder::ControlFolder(ControlFolder&& other) noexcept
    : path_(std::move(other.path_)), folder_(std::exchange(other.folder_, -1)) {
}

ControlFolder::~ControlFolder() {
    if (folder_ >= 0) {
        ::close(folder_);
    }
}

std::optional<ControlFolder::Content> ControlFolder::read(const std::string& name,
                                                          std::size_t limit) const {
    // Not blocking: a pipe under this name may have no writer.
    const int file =
        ::openat(folder_, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    if (file < 0) {
        return errno == ENOENT ? std::nullopt
                               : std::optional<Content>({.text = "", .refused = errno_text(errno)});
    }
    struct stat facts {};
    Content content;
    if (::fstat(file, &facts) != 0) {
        content.refused = errno_text(errno);
    } else if (!S_ISREG(facts.st_mode)) {
        content.refused = "not a regular file";
    } else if (facts.st_uid != ::geteuid()) {
        content.refused = fmt::format("it belongs to user {}", facts.st_uid);
    } else {
        content = read_all(file, limit);
    }
    ::close(file);
    return content;
}

void ControlFolder::put(const std::string& name, std::string_view text) const {
    const std::string temporary = ".part-" + name;
    const int file = ::openat(folder_, temporary.c_str(),
                              O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (file < 0) {
        refuse_file(path_ + "/" + name, "cannot be written", errno_text(errno));
    }
    int error = write_all(file, text);
    error = ::close(file) == 0 || error != 0 ? error : errno;
    if (error != 0 || ::renameat(folder_, temporary.c_str(), folder_, name.c_str()) != 0) {
        const std::string reason = errno_text(error != 0 ? error : errno);
        ::unlinkat(folder_, temporary.c_str(), 0);
        refuse_file(path_ + "/" + name, "cannot be written", reason);
    }
}

bool ControlFolder::remove(const std::string& name) const noexcept {
    return ::unlinkat(folder_, name.c_str(), 0) == 0 ||
           (errno == EISDIR && ::unlinkat(folder_, name.c_str(), AT_REMOVEDIR) == 0);
}

std::vector<std::string> ControlFolder::list(std::string_view prefix, std::size_t most) const {
    std::vector<std::string> names;
    const int own = ::openat(folder_, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR* entries = own < 0 ? nullptr : ::fdopendir(own);
    if (entries == nullptr) {
        if (own >= 0) {
            ::close(own);
        }
        return names;
    }
    while (names.size() < most) {
        const dirent* entry = ::readdir(entries);
        if (entry == nullptr) {
            break;
        }
        if (std::string_view(entry->d_name).starts_with(prefix)) {
            names.emplace_back(entry->d_name);
        }
    }
    ::closedir(entries);
    return names;
}

std::string random_token() {
    std::random_device device;
    std::string token;
    for (int word = 0; word < 4; ++word) {
        token += fmt::format("{:08x}", static_cast<std::uint32_t>(device()));
    }
    return token;
}

ControlReply ask_job(const std::string& out, const std::string& request, Clock::Seconds limit) {
    check_request(request);
    const ControlFolder folder(RunFolder(out).control, ControlFolder::Make::kNo);
    const std::string token = token_of(folder);
    const std::string id = random_token();
    try {
        folder.put("request-" + id, token + "\n" + request + "\n");
    } catch (const FileError&) {
        if (!folder.read("run", kControlBytes)) {  // the job ended and took the folder with it
            give_up(folder, "request-" + id, true, limit);
        }
        throw;
    }
    const SteadyClock clock;
    const Clock::Seconds start = clock.now();
    for (bool over = false;;) {
        if (const auto content = folder.read("reply-" + id, kReplyBytes)) {
            folder.remove("reply-" + id);
            if (!content->refused.empty()) {
                fail<FileError>({.where = folder.path() + "/reply-" + id,
                                 .what = "cannot be trusted",
                                 .got = content->refused});
            }
            return parse_reply(content->text);
        }
        if (over || clock.now() - start > limit) {
            give_up(folder, "request-" + id, over, limit);
        }
        const auto run = folder.read("run", kControlBytes);
        over = !run || first_line(run->text) != token;
        if (over) {
            continue;  // the answer may have been written before the job ended
        }
        std::this_thread::sleep_for(kPoll);
    }
}

}  // namespace cohort
