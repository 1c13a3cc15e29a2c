#include "train/run/control.hpp"

#include <fmt/format.h>

#include <optional>
#include <string_view>
#include <thread>

#include "cohort/core/error.hpp"
#include "train/run/control_files.hpp"
#include "train/run/run_folder.hpp"

namespace cohort {
namespace {

constexpr Clock::Seconds kPoll{0.05};

void check_request(const std::string& request) {
    constexpr std::string_view kMode = "mode ";
    const bool mode = request.starts_with(kMode) && request.size() > kMode.size() &&
                      request.find_first_not_of(
                          "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVW"
                          "XYZ0123456789:.,+-_@",
                          kMode.size()) == std::string::npos;
    if ((!mode && request != "status" && request != "stop") || request.size() > kControlBytes / 2) {
        fail<UsageError>({.where = "cohort ctl",
                          .what = "there is no such request",
                          .expected = "mode MODE, status or stop",
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

ControlReply ask_job(const std::string& out, const std::string& request, Clock::Seconds limit) {
    check_request(request);
    const ControlFolder folder(RunFolder(out).control, ControlFolder::Make::kNo);
    const std::string token = token_of(folder);
    const std::string id = random_token();
    folder.put("request-" + id, token + "\n" + request + "\n");
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
