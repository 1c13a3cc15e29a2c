#pragma once

#include <functional>
#include <optional>
#include <string>

#include "cohort/core/clock.hpp"
#include "train/run/control.hpp"

namespace cohort {

/// The running job's side of OUT/ctl:
///  1. a file `run` says that it listens, with a token that only those know who may read it
///  2. a request is a file `request-ID`: the token in its first line, the words in its second;
///     it is taken away, then answered by a file `reply-ID`: "accepted" or "refused", then text
///  3. at the end `run` goes, and once answers are read, or a second later, everything else
/// Files that are no requests of this run (an earlier one's token, another owner, not a regular
/// file, too long, no such form) are taken away; where a reply can reach its sender it says why.
class ControlServer {
public:
    /// Says what a request ("mode static:4") leads to. Errors of type Error become refusals.
    using Handler = std::function<std::string(const std::string& words)>;

    /// Requests and replies of earlier runs are deleted. Errors: FileError, as ControlFolder.
    ControlServer(const std::string& path, Handler handler);
    ControlServer(const ControlServer&) = delete;
    ControlServer& operator=(const ControlServer&) = delete;
    ~ControlServer();

    /// Looks for requests, at most once in kLook, and answers them.
    void look(Clock::Seconds now);
    static constexpr Clock::Seconds kLook{1};

private:
    void answer(const std::string& name);
    [[nodiscard]] ControlReply reply_to(const ControlFolder::Content& content) const;
    void await_readers() const noexcept;
    void clear() const noexcept;

    ControlFolder folder_;
    Handler handler_;
    std::string token_;
    std::optional<Clock::Seconds> looked_;
};

}  // namespace cohort
